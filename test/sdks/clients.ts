import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** A client library of the ecosystem, behind what they all have in common. */
export interface Sdk {
  readonly name: string;
  connect(url: string, writeKey: string): Promise<Connected>;
}

export interface Connected {
  send(type: Call, message: Record<string, unknown>): void;
  /** Resolves once everything is sent or given up. */
  close(): Promise<void>;
  /** Messages that the library said it gave up. */
  readonly errors: readonly unknown[];
}

export type Call = 'identify' | 'track' | 'page' | 'screen' | 'group' | 'alias';
type Methods = Record<Call, (message: Record<string, unknown>) => unknown>;

/** They are installed by `npm run test:sdks` only. */
export const installed = existsSync(join(import.meta.dirname, 'node_modules', 'analytics-node'));

/** By a name that TypeScript can't follow: where the packages are missing, the check must pass all the same. */
async function constructorOf<Options extends unknown[], Client>(name: string) {
  const { default: exported, Analytics = exported } = await import(name);
  return Analytics as new (
    ...options: Options
  ) => Client;
}

/** Retries are theirs; only their pauses and batches are made short. */
export const sdks: readonly Sdk[] = [
  {
    name: '@segment/analytics-node',
    async connect(host, writeKey) {
      type Client = Methods & {
        closeAndFlush(): Promise<void>;
        on(event: 'error', listener: (error: unknown) => void): void;
      };
      const Analytics = await constructorOf<[object], Client>('@segment/analytics-node');
      const client = new Analytics({ host, path: '/v1/batch', writeKey, flushInterval: 60_000, flushAt: 100 });
      const errors: unknown[] = [];
      client.on('error', (error) => errors.push(error));
      return { errors, send: (type, message) => void client[type](message), close: () => client.closeAndFlush() };
    },
  },
  legacy('analytics-node', (host) => ({ host })),
  legacy('@rudderstack/rudder-sdk-node', (dataPlaneUrl) => ({ dataPlaneUrl, logLevel: 'none' })),
  {
    ...legacy('@rudderstack/rudder-sdk-node', (dataPlaneUrl) => ({ dataPlaneUrl, gzip: false, logLevel: 'none' })),
    name: 'rudder, plain',
  },
];

function legacy(name: string, target: (url: string) => object): Sdk {
  return {
    name,
    async connect(url, writeKey) {
      type Method = (message: Record<string, unknown>, callback: () => void) => unknown;
      type Client = Record<Call, Method> & { flush(): Promise<unknown> };
      const Analytics = await constructorOf<[string, object], Client>(name);
      const errors: unknown[] = [];
      const errorHandler = (error: unknown) => errors.push(error);
      const client = new Analytics(writeKey, { ...target(url), errorHandler, flushAt: 100, flushInterval: 60_000 });
      // The first call is sent at once, and `flush` doesn't wait for it.
      const calls: Promise<void>[] = [];
      return {
        errors,
        send: (type, message) => void calls.push(new Promise((resolve) => client[type](message, resolve))),
        async close() {
          await client.flush();
          await Promise.all(calls);
        },
      };
    },
  };
}
