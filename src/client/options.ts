import { type Clock, systemClock } from './clock.ts';
import { ClientError } from './errors.ts';
import type { Loss } from './ledger.ts';

/** Options of a `Client`. All are optional; times are milliseconds, sizes bytes. */
export interface ClientOptions {
  /** Base URL of the collection API, http or https. Default: `ROLLCALL_ENDPOINT`, else `http://127.0.0.1:8080`. */
  endpoint?: string;
  /** Messages queued before a flush, at least 1. Default 20; with 1 every message is sent at once. */
  flushAt?: number;
  /** Other name of `flushAt`. */
  size?: number;
  /** Time since the last flush after which what is queued is flushed. Default 5,000 ms. */
  flushAfter?: number;
  /** Most messages held, in flight included; further ones are dropped and reported. Default 100,000. */
  maxQueueCount?: number;
  /** Most bytes of messages held, in flight included; further ones are dropped and reported. Default 32 MiB. */
  maxQueueBytes?: number;
  /** Time for one request, connecting and reading the answer included. Default 30,000 ms. */
  requestTimeout?: number;
  /** How long a batch is tried again before it fails, from its first message on. Default 14,400,000 ms (4 h). */
  retryFor?: number;
  /** Longest that `flush` and `close` wait unless told otherwise. Default 20,000 ms. */
  closeTimeout?: number;
  /** A folder for what is not sent yet: it survives a crash of the process and is sent by the next client. Default: none. */
  spool?: string;
  /** Called for every message that will not arrive, with the reason. Default: one process warning per reason. */
  onLoss?: (loss: Loss) => void;
  /** @internal Time and randomness, for tests. */
  clock?: Clock;
}

/** Options with every default filled in. */
export interface Settings {
  endpoint: URL;
  flushAt: number;
  flushAfter: number;
  maxQueueCount: number;
  maxQueueBytes: number;
  requestTimeout: number;
  retryFor: number;
  closeTimeout: number;
  spool: string | undefined;
  onLoss: ((loss: Loss) => void) | undefined;
  clock: Clock;
}

const MiB = 1024 * 1024;
/** Timers of JavaScript hold no more than 31 bits. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** @throws ClientError `bad_configuration`, naming the option. */
export function resolve(options: ClientOptions): Settings {
  return {
    endpoint: batchUrl(options.endpoint ?? (process.env['ROLLCALL_ENDPOINT'] || 'http://127.0.0.1:8080')),
    flushAt: number('flushAt', options.flushAt ?? options.size, 20, 1),
    flushAfter: number('flushAfter', options.flushAfter, 5_000, 1),
    maxQueueCount: number('maxQueueCount', options.maxQueueCount, 100_000, 1),
    maxQueueBytes: number('maxQueueBytes', options.maxQueueBytes, 32 * MiB, 1),
    requestTimeout: number('requestTimeout', options.requestTimeout, 30_000, 1),
    retryFor: number('retryFor', options.retryFor, 4 * 60 * 60_000, 0),
    closeTimeout: number('closeTimeout', options.closeTimeout, 20_000, 0),
    spool: options.spool,
    onLoss: options.onLoss,
    clock: options.clock ?? systemClock,
  };
}

function batchUrl(endpoint: string): URL {
  const url = URL.parse(endpoint);
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new ClientError('bad_configuration', `endpoint must be an http or https URL, got ${endpoint}`, 'endpoint');
  }
  const base = url.pathname.replace(/\/+$/, '');
  url.pathname = base.endsWith('/v1/batch') ? base : `${base}/v1/batch`;
  return url;
}

/** @throws ClientError `bad_configuration` unless it is a number in the range, or absent. */
export function number(name: string, value: number | undefined, fallback: number, least: number): number {
  if (value === undefined) return fallback;
  if (typeof value !== 'number' || !(value >= least && value <= LONGEST_TIMER)) {
    throw new ClientError('bad_configuration', `${name} must be a number from ${least} to ${LONGEST_TIMER}`, name);
  }
  return value;
}
