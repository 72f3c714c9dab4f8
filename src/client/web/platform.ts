import { MAX_BATCH_BYTES, type Platform } from '../platform.ts';
import { byteLength, TextBatch } from './batch.ts';
import { webClock } from './clock.ts';
import { guard, isPage, unguard } from './page.ts';
import { MAX_PAGE_BYTES, WebTransport } from './transport.ts';

const { navigator, EdgeRuntime } = globalThis as { navigator?: { userAgent?: string }; EdgeRuntime?: unknown };

const silent = Object.assign(() => {}, { enabled: false });

/** Browsers, workers and edge runtimes: they have `fetch`, but no built-ins of Node. */
export const web: Platform = {
  clock: webClock,
  log: silent,
  isPerRequest: navigator?.userAgent === 'Cloudflare-Workers' || EdgeRuntime !== undefined,
  defaultEndpoint: () => {
    const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
    return process?.env?.['ROLLCALL_ENDPOINT'] || undefined;
  },
  byteLength,
  newBatch: (since, writeKey) => new TextBatch(since, writeKey, isPage ? MAX_PAGE_BYTES : MAX_BATCH_BYTES),
  transport: (writeKey, settings) => new WebTransport(writeKey, settings),
  guard,
  unguard,
  warn: (text) => console.warn(`RollcallWarning: ${text}`),
};
