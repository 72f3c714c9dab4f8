import { createHmac, createSecretKey } from 'node:crypto';
import { systemClock } from '../../src/clock.ts';
import { post } from '../../src/deliver/exchange.ts';
import { createAgent } from '../../src/deliver/http/agent.ts';

/** The same work for all: enqueue so many messages, and post each, signed, over at most 64 connections. */
export interface Work {
  readonly database: string;
  readonly sink: string;
  readonly count: number;
}

/** One process of a contender, set up; `enqueue` puts its share into the queue. */
export interface Driver {
  enqueue(bodies: readonly object[]): Promise<unknown>;
  stop(): Promise<void>;
}

export const SECRET = 'a shared secret of the benchmark';
export const CONNECTIONS = 64;

/** About 800 bytes as JSON. */
export function body(n: number): object {
  return {
    version: 1,
    type: 'track',
    userId: `user-${n % 5_000}`,
    event: 'Order Completed',
    properties: { order_id: `order-${n}`, total: 19.95 + (n % 100), currency: 'EUR', note: 'x'.repeat(420) },
    context: {
      ip: '203.0.113.7',
      library: { name: 'analytics-node', version: '3.1.0' },
      userAgent: 'Mozilla/5.0 (X11; Linux)',
    },
    timestamp: new Date(1_767_323_045_678 + n).toISOString(),
    messageId: `message-${process.pid}-${n}`,
  };
}

/** What peers post with: our own agent, so that only the queues differ. */
export function poster(sink: string): (payload: object, id: string) => Promise<void> {
  const agent = createAgent({ allow: ['127.0.0.0/8'], ca: [], proxy: null });
  const key = createSecretKey(Buffer.from(SECRET));
  return async (payload, id) => {
    const bytes = Buffer.from(JSON.stringify(payload));
    const signature = createHmac('sha1', key).update(bytes).digest('hex');
    const headers = ['content-type', 'application/json', 'x-signature', signature, 'idempotency-key', id];
    const { outcome } = await post(agent, systemClock, { origin: sink, path: '/', headers, body: bytes });
    if (outcome !== 'success') throw new Error(outcome);
  };
}
