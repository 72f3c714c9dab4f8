import { createHmac, createSecretKey } from 'node:crypto';
import { post } from '../../src/deliver/exchange.ts';
import { createAgent } from '../../src/deliver/http/agent.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { bodyMaker } from '../bodies.ts';

/** The same work for all: take messages into the queue, and post each, signed, over at most 64 connections. */
export interface Work {
  readonly database: string;
  readonly sink: string;
  /** Size of the bodies. */
  readonly kb: number;
}

export interface Message {
  readonly id: string;
  readonly userId: string;
  /** JSON, to be posted as it is. */
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

/** Makes messages with bodies of `kb` thousand bytes. */
export function messageMaker(kb: number): (n: number) => Message {
  const bodyOf = bodyMaker(kb);
  return (n) => {
    const id = `message-${process.pid}-${n}`;
    const userId = `user-${n % 5_000}`;
    return { id, userId, body: bodyOf(userId, id) };
  };
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
