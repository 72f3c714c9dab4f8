import { createHmac, createSecretKey } from 'node:crypto';
import { post } from '../../src/deliver/exchange.ts';
import { createAgent } from '../../src/deliver/http/agent.ts';
import { systemClock } from '../../src/kernel/clock.ts';

/** The same work for all: take messages into the queue, and post each, signed, over at most 64 connections. */
export interface Work {
  readonly database: string;
  readonly sink: string;
}

export interface Message {
  readonly id: string;
  readonly userId: string;
  /** 800 bytes or so of JSON, to be posted as it is. */
  readonly body: string;
}

/** One process of a contender, set up. */
export interface Driver {
  enqueue(messages: readonly Message[]): Promise<unknown>;
  stop(): Promise<void>;
}

export const SECRET = 'a shared secret of the benchmark';
export const CONNECTIONS = 64;
/** Messages put in at a time. */
export const BATCH = 200;

const NOTE = 'x'.repeat(420);

export function message(n: number): Message {
  const id = `message-${process.pid}-${n}`;
  const userId = `user-${n % 5_000}`;
  const body = JSON.stringify({
    version: 1,
    type: 'track',
    userId,
    event: 'Order Completed',
    properties: { order_id: `order-${n}`, total: 19.95 + (n % 100), currency: 'EUR', note: NOTE },
    context: {
      ip: '203.0.113.7',
      library: { name: 'analytics-node', version: '3.1.0' },
      userAgent: 'Mozilla/5.0 (X11; Linux)',
    },
    timestamp: new Date(1_767_323_045_678 + n).toISOString(),
    messageId: id,
  });
  return { id, userId, body };
}

/** Posts for peers with our own agent, so that only the queues differ. */
export function poster(sink: string): (message: Message, id: string) => Promise<void> {
  const agent = createAgent({ allow: ['127.0.0.0/8'], ca: [], proxy: null });
  const key = createSecretKey(Buffer.from(SECRET));
  return async ({ body }, id) => {
    const bytes = Buffer.from(body);
    const signature = createHmac('sha1', key).update(bytes).digest('hex');
    const headers = ['content-type', 'application/json', 'x-signature', signature, 'idempotency-key', id];
    const { outcome } = await post(agent, systemClock, { origin: sink, path: '/', headers, body: bytes });
    if (outcome !== 'success') throw new Error(outcome);
  };
}
