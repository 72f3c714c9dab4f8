import { BaseClient } from '../client.ts';
import type { AnyEvents } from '../message.ts';
import type { ClientOptions } from '../options.ts';
import { node } from './platform.ts';

/**
 * Records messages and sends them in batches in the background, in the order of the calls.
 *
 * A call checks the message and queues it: it makes no request, waits for nothing, and throws only if the message
 * itself is wrong (`ClientError`). It returns false if the message was dropped because the queue is full or the
 * client closed. `onLoss` is called in that case, too.
 *
 * @typeParam Events names of track events and the types of their properties; any by default
 * @example
 * const client = new Client('WRITE_KEY', { endpoint: 'http://127.0.0.1:8080' });
 * client.track({ userId: 'u1', event: 'Order Completed', properties: { total: 30 } });
 * await client.close();
 */
export class Client<Events extends object = AnyEvents> extends BaseClient<Events> {
  /**
   * @param writeKey the key of the source
   * @throws ClientError `bad_configuration`, naming the option
   */
  constructor(writeKey: string, options: ClientOptions = {}) {
    super(writeKey, options, node);
  }
}
