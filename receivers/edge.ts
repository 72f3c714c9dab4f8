import { createCore } from './core.ts';
import type { CoreOptions, Log } from './options.ts';
import { consoleLog, respond } from './receive.ts';
import { webSignatures } from './web-signatures.ts';

/** Options of a receiver on an edge runtime. Secrets are text; a request's `rawBody` is a `Uint8Array`. */
export type EdgeOptions = CoreOptions & {
  /** Where refusals and failures are logged (default: the console). */
  log?: Log;
};

/** A receiver that needs nothing of Node: `fetch`'s types, WebCrypto and timers. */
export interface EdgeReceiver {
  /** Never rejects. */
  handle(request: Request): Promise<Response>;
  /** Answers 503 from now on and waits for the handlers. */
  close(): Promise<void>;
}

/**
 * A receiver for edge runtimes. Its memory is that of one instance: give it a `store` that all share.
 *
 * @throws TypeError when the secret is missing or empty
 */
export function createReceiver(options: EdgeOptions): EdgeReceiver {
  const core = createCore(options, webSignatures);
  const log = options.log ?? consoleLog;
  return { handle: (request) => respond(core, request, log), close: () => core.close() };
}

export type { Message, MessageOf, UnknownMessage } from './messages.ts';
export type { Handler, Handlers, ReceivedRequest } from './options.ts';
export { LeaseLost, memoryStore, type Opened, type Opening, type ReceiverStore } from './store.ts';
