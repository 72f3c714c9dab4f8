import type { ClientClock } from './clock.ts';
import type { Fetch } from './fetch.ts';
import type { Loss } from './ledger.ts';
import type { Retry } from './outage.ts';

/** Options of a `Client`. All are optional; times are milliseconds, sizes bytes. */
export interface ClientOptions {
  /** Base URL of the collection API, http or https; `/v1/batch` is added. Default: `ROLLCALL_ENDPOINT`, else `http://127.0.0.1:8080`. */
  endpoint?: string;
  /** Messages queued before a flush, at least 1. Default 20; with 1 every message is sent at once. */
  flushAt?: number;
  /** Alias of `flushAt`. */
  size?: number;
  /** Time since the last flush after which queued messages are sent. Default 5,000 ms. */
  flushAfter?: number;
  /** Most messages held, in flight included; further ones are dropped and reported. Default 100,000. */
  maxQueueCount?: number;
  /** Most bytes of messages held, in flight included; further ones are dropped and reported. Default 32 MiB. */
  maxQueueBytes?: number;
  /** Time for one request, connecting and reading the answer included. Default 30,000 ms. */
  requestTimeout?: number;
  /** Time for retries of a batch before it fails, counted from its first message. Default 14,400,000 ms (4 h). */
  retryFor?: number;
  /** Most retries of a batch before it fails, within `retryFor`. Default: as many as that allows. */
  maxRetries?: number;
  /** Longest wait of `flush` and `close`, unless a call sets its own. Default 20,000 ms. */
  closeTimeout?: number;
  /** A folder for unsent messages: they survive a crash of the process and are sent by the next client. Default: none. */
  spool?: string;
  /** An invalid message throws at its call, or with `drop` is dropped and reported as a loss. Default `throw`. */
  invalid?: 'throw' | 'drop';
  /** Called for every message that will not arrive, with the reason. Default: one process warning per reason. */
  onLoss?: (loss: Loss) => void;
  /** Called for every failed request that will be retried. Default: process warnings, at once and then less and less often. */
  onRetry?: (retry: Retry) => void;
  /** Makes the requests, for instance through a proxy. Default: `node:http`; in browsers and on the edge `fetch`. */
  fetch?: Fetch;
  /** @internal Time and randomness, for tests. */
  clock?: ClientClock;
}
