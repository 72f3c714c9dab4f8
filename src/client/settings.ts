import type { ClientClock } from './clock.ts';
import { ClientError } from './errors.ts';
import type { Fetch } from './fetch.ts';
import type { Loss } from './ledger.ts';
import type { ClientOptions } from './options.ts';
import type { Retry } from './outage.ts';
import type { Platform } from './platform.ts';

const MiB = 1024 * 1024;
/** The path of the batch call. */
const BATCH = '/v1/batch';
/** Timers of JavaScript are limited to 31 bits. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** Options with every default filled in. */
export interface ClientSettings {
  endpoint: URL;
  flushAt: number;
  flushAfter: number;
  maxQueueCount: number;
  maxQueueBytes: number;
  requestTimeout: number;
  retryFor: number;
  maxRetries: number;
  closeTimeout: number;
  spool: string | undefined;
  invalid: 'throw' | 'drop';
  onLoss: ((loss: Loss) => void) | undefined;
  onRetry: ((retry: Retry) => void) | undefined;
  fetch: Fetch | undefined;
  clock: ClientClock;
}

/** @throws ClientError `bad_configuration`, naming the option. */
export function resolve(options: ClientOptions, platform: Platform): ClientSettings {
  // An untyped caller may pass the endpoint itself as text, which would otherwise be ignored.
  if (typeof options !== 'object' || options === null)
    throw new ClientError('bad_configuration', 'options must be an object', 'options');
  requireType('spool', options.spool, 'string');
  for (const name of ['onLoss', 'onRetry', 'fetch'] as const) requireType(name, options[name], 'function');
  const settings: ClientSettings = {
    endpoint: batchUrl(options.endpoint ?? platform.defaultEndpoint()),
    flushAt: number('flushAt', options.flushAt ?? options.size, 20, 1),
    flushAfter: number('flushAfter', options.flushAfter, 5_000, 1),
    maxQueueCount: number('maxQueueCount', options.maxQueueCount, 100_000, 1),
    maxQueueBytes: number('maxQueueBytes', options.maxQueueBytes, 32 * MiB, 1),
    requestTimeout: number('requestTimeout', options.requestTimeout, 30_000, 1),
    retryFor: number('retryFor', options.retryFor, 4 * 60 * 60_000, 0),
    maxRetries: number('maxRetries', options.maxRetries, LONGEST_TIMER, 0),
    closeTimeout: number('closeTimeout', options.closeTimeout, 20_000, 0),
    spool: options.spool,
    invalid: options.invalid ?? 'throw',
    onLoss: options.onLoss,
    onRetry: options.onRetry,
    fetch: options.fetch,
    clock: options.clock ?? platform.clock,
  };
  if (!['throw', 'drop'].includes(settings.invalid)) {
    throw new ClientError('bad_configuration', "invalid must be 'throw' or 'drop'", 'invalid');
  }
  const wrong = Object.keys(options).find((name) => name !== 'size' && !Object.hasOwn(settings, name));
  if (wrong === undefined) return settings;
  const names = Object.keys(settings).filter((name) => name !== 'clock');
  throw new ClientError('bad_configuration', `${wrong} is not an option: give ${names.join(', ')}`, wrong);
}

function requireType(name: string, given: unknown, type: 'string' | 'function'): void {
  if (given === undefined || typeof given === type) return;
  throw new ClientError('bad_configuration', `${name} must be a ${type}`, name);
}

function batchUrl(endpoint: string | undefined): URL {
  if (endpoint === undefined) throw new ClientError('bad_configuration', 'endpoint is required here', 'endpoint');
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new ClientError('bad_configuration', `endpoint must be an http or https URL, got ${endpoint}`, 'endpoint');
  }
  const base = url.pathname.replace(/\/+$/, '');
  url.pathname = base.endsWith(BATCH) ? base : base + BATCH;
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
