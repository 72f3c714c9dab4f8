import type { ServerOptions } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { type Logger, pino } from 'pino';
import type { Test } from 'tap';
import { collect } from '../../src/collect/collect.ts';
import type { CollectOptions } from '../../src/collect/options.ts';
import type { Source } from '../../src/destination.ts';
import type { EdgeLimits } from '../../src/http/edge.ts';
import { createHttpServer } from '../../src/http/server.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import type { Message } from '../../src/message.ts';

/** When everything arrives. */
export const NOW = Date.parse('2026-11-21T03:00:00.000Z');

export interface Service {
  readonly app: FastifyInstance;
  /** Messages handed on, in order. */
  readonly accepted: { readonly source: string; readonly messages: readonly Message[] }[];
  /** Base address; listens on first use. */
  url(): Promise<string>;
}

export const SHOP: Source = { id: 'shop', writeKey: 'WK_shop', enabled: true };

interface ServiceOptions extends Partial<CollectOptions> {
  readonly edge?: Partial<EdgeLimits>;
  readonly node?: ServerOptions;
  readonly trustedProxies?: readonly string[];
  readonly log?: Logger;
}

/** The collection API in front of a pipeline that only takes notes. */
export function startService(t: Test, given: ServiceOptions = {}): Service {
  const { edge = {}, node = {}, trustedProxies, log = pino({ level: 'silent' }), ...options } = given;
  const accepted: Service['accepted'] = [];
  const health = { alive: () => {}, ready: async () => {} };
  const app = createHttpServer(log, health, trustedProxies, systemClock, { limits: edge, node });
  const sources = [SHOP, { id: 'closed', writeKey: 'WK_closed', enabled: false }];
  let ids = 0;
  app.register(collect, {
    sources: () => sources,
    clock: { ...systemClock, now: () => NOW, uuid: () => `id-${++ids}` },
    accept: async (source, messages) => {
      accepted.push({ source, messages });
    },
    ...options,
  });
  t.teardown(() => app.close());
  return {
    app,
    accepted,
    async url() {
      return app.server.listening ? app.listeningOrigin : app.listen({ host: '127.0.0.1', port: 0 });
    },
  };
}

export const basic = (credentials: string) => `Basic ${Buffer.from(credentials).toString('base64')}`;

export const authorization = basic('WK_shop:');

export const track = { type: 'track', event: 'Bought', userId: 'u1' };
