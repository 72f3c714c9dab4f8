import type { Clock } from '../clock.ts';
import { ClientError } from '../errors.ts';
import type { Fetch, FetchAnswer, FetchInit } from '../fetch.ts';
import type { ClientOptions } from '../options.ts';
import { LONGEST_TIMER, requireObject } from '../settings.ts';

/** A request that an {@link HTTPClient} makes. */
export interface HTTPClientRequest {
  url: string;
  method: 'POST';
  headers: Record<string, string>;
  body: string;
  /** Milliseconds. */
  httpRequestTimeout: number;
}

/** Makes the requests. */
export interface HTTPClient {
  makeRequest(request: HTTPClientRequest): Promise<FetchAnswer>;
}

/** The options of `@segment/analytics-node`, and of ours what it has nothing like. Times are milliseconds unless said. */
export interface AnalyticsSettings
  extends Pick<ClientOptions, 'maxQueueCount' | 'maxQueueBytes' | 'onLoss' | 'onRetry'> {
  /** The key of the source. */
  writeKey: string;
  /** Base URL of the collection API. Default: `ROLLCALL_ENDPOINT`, else `http://127.0.0.1:8080`. */
  host?: string;
  /** Default: `/v1/batch`. */
  path?: string;
  /** How often a batch is tried again before it fails. Default: as often as `maxTotalBackoffDuration` allows. */
  maxRetries?: number;
  /** Messages queued before a flush. Default 15. */
  flushAt?: number;
  /** Other name of `flushAt`. */
  maxEventsInBatch?: number;
  /** Time since the last flush after which what is queued is flushed. Default 10,000. */
  flushInterval?: number;
  /** Time for one request. Default 10,000. */
  httpRequestTimeout?: number;
  /** Makes no requests: every message counts as sent. */
  disable?: boolean;
  /** A `fetch`, or an object that makes requests. Default: our own over `node:http`, in browsers and on the edge `fetch`. */
  httpClient?: Fetch | HTTPClient;
  /** Seconds for which a batch is tried again, from its first message on. Default 14,400 (4 h). */
  maxTotalBackoffDuration?: number;
  /** Has no effect: an answer 429 is tried again like any other, for `maxTotalBackoffDuration`. */
  maxRateLimitDuration?: number;
  /** Not supported, and refused: a source is known by its write key. */
  oauthSettings?: never;
  /** @internal Time and randomness, for tests. */
  clock?: Clock;
}

/** @throws ClientError `bad_configuration`, naming the option. */
export function clientOptions(settings: AnalyticsSettings): ClientOptions {
  requireObject('settings', settings);
  if (settings.oauthSettings !== undefined) {
    throw new ClientError(
      'bad_configuration',
      'oauthSettings is not supported: there is only a writeKey',
      'oauthSettings',
    );
  }
  const { host, path, maxRetries, flushAt, maxEventsInBatch, maxTotalBackoffDuration, httpClient } = settings;
  const { flushInterval = 10_000, httpRequestTimeout = 10_000, disable = false } = settings;
  const { maxQueueCount, maxQueueBytes, onLoss, onRetry, clock } = settings;
  const options = {
    ...{ path, maxRetries, maxQueueCount, maxQueueBytes, onLoss, onRetry, clock },
    endpoint: host,
    flushAt: Math.max(1, flushAt ?? maxEventsInBatch ?? 15),
    flushAfter: Math.max(1, flushInterval),
    requestTimeout: httpRequestTimeout,
    retryFor: maxTotalBackoffDuration === undefined ? undefined : atMost(maxTotalBackoffDuration * 1000),
    closeTimeout: atMost(Math.max(60_000, flushInterval) * 1.25),
    fetch: disable ? nowhere : asFetch(httpClient, httpRequestTimeout),
  };
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

/** The user has named another number: the limit would read as if it were that one's. */
const atMost = (milliseconds: number) => Math.min(milliseconds, LONGEST_TIMER);

/** Names here of options of the client. */
const NAMES: Record<string, keyof AnalyticsSettings> = {
  endpoint: 'host',
  flushAfter: 'flushInterval',
  requestTimeout: 'httpRequestTimeout',
  retryFor: 'maxTotalBackoffDuration',
};

/** An error of the client's options, by the names that these have here. */
export function renamed(error: unknown): unknown {
  if (!(error instanceof ClientError) || error.field === undefined) return error;
  const { code, field, message } = error;
  const name = NAMES[field] ?? field;
  return new ClientError(code, message.replace(field, name), name, { cause: error });
}

const nowhere: Fetch = async () => ({ status: 200 });

function asFetch(httpClient: Fetch | HTTPClient | undefined, httpRequestTimeout: number): Fetch | undefined {
  if (httpClient === undefined || typeof httpClient === 'function') return httpClient;
  if (typeof httpClient?.makeRequest !== 'function') {
    throw new ClientError('bad_configuration', 'httpClient must be a fetch, or have makeRequest', 'httpClient');
  }
  return (url: string, { method, headers, body }: FetchInit) =>
    httpClient.makeRequest({ url, method, headers, body, httpRequestTimeout });
}
