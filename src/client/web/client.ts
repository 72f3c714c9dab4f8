import { BaseClient } from '../client.ts';
import type { AnyEvents } from '../message.ts';
import type { ClientOptions } from '../options.ts';
import { web } from './platform.ts';

/**
 * Records messages and sends them in batches in the background, in the order of the calls. Works as on Node, but has no
 * spool, and `endpoint` is required in browsers.
 *
 * @typeParam Events names of track events and the types of their properties; any by default
 */
export class Client<Events extends object = AnyEvents> extends BaseClient<Events> {
  /**
   * @param writeKey the key of the source
   * @throws ClientError `bad_configuration`, naming the option
   */
  constructor(writeKey: string, options: Omit<ClientOptions, 'spool'> = {}) {
    super(writeKey, options, web);
  }
}
