import { createCore } from './core/core.ts';
import type { CoreOptions, Handlers, Log } from './options.ts';
import { logOf, respond } from './receive.ts';
import type { ReceiverStore } from './store.ts';
import { webSignatures } from './verify/web-signatures.ts';

/**
 * Options of a receiver on an edge runtime. Secrets are text. A request's `rawBody` is a `Uint8Array`. There is no
 * `ack: 'stored'`, since nothing runs after the answer. `stuckAfter` is one minute by default.
 */
export type EdgeOptions = Omit<CoreOptions, 'ack' | 'store' | 'concurrency'> & {
  on: Handlers;
  ack?: 'handled';
  store?: ReceiverStore;
  /** Logs refusals and failures (default: the console). */
  log?: Log;
};

/** A receiver that needs no Node, only `fetch`'s types, WebCrypto and timers. */
export interface EdgeReceiver {
  /**
   * Never rejects.
   *
   * @param context - the platform's context. Its `waitUntil`, if there is one, keeps the instance alive for handlers that
   *   finish after the answer
   */
  handle(request: Request, context?: object): Promise<Response>;
  /** Answers 503 from now on and waits for the handlers. */
  close(): Promise<void>;
}

/** Milliseconds after an answer by which platforms have ended all remaining work. */
const STUCK_AFTER = 60_000;

/**
 * A receiver for edge runtimes. Its default memory is that of one instance: pass a `store` that all instances share.
 *
 * @throws TypeError when the secret is missing or empty, or with `ack: 'stored'`
 */
export function createReceiver(options: EdgeOptions): EdgeReceiver {
  if ((options as CoreOptions | undefined)?.ack === 'stored') {
    throw new TypeError(
      "ack: 'stored' needs a process that works on after the answer: there is none on an edge runtime",
    );
  }
  const core = createCore({ stuckAfter: STUCK_AFTER, ...options }, webSignatures, true);
  const log = logOf(options);
  void core.resume(log);
  return {
    handle(request, context) {
      const response = respond(core, request, log, context);
      waitUntil(context, () => response.then(() => core.settled()));
      return response;
    },
    close: () => core.close(),
  };
}

/** Call before the first await: once the sender hangs up, some platforms end work that they were not asked to wait for. */
function waitUntil(context: object | undefined, work: () => Promise<void>): void {
  if (context && 'waitUntil' in context && typeof context.waitUntil === 'function') context.waitUntil(work());
}

export type { Handler, Handlers, ReceivedRequest } from './options.ts';
export type { Message, MessageOf, UnknownMessage } from './parse/messages.ts';
export { LeaseLost, memoryStore, type Opened, type Opening, type ReceiverStore } from './store.ts';
