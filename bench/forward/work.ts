import { createHmac, createSecretKey, randomUUID } from 'node:crypto';
import { Agent } from 'undici';
import { bodyMaker } from '../bodies.ts';

export const CONNECTIONS = 64;
const SECRET = 'a shared secret of ordinary length';
export const ADMIN_TOKEN = 'a-token-of-the-bench';

/** A track call; the number finds it again on its way out. */
export interface Item {
  readonly index: number;
  readonly body: string;
}

/** Makes calls with bodies of `kb` thousand bytes. */
export function itemMaker(kb: number): (index: number) => Item {
  const bodyOf = bodyMaker(kb);
  return (index) => ({ index, body: bodyOf(`user-${index % 5_000}`, messageId(index)) });
}

/** Random, as clients make them, but with the item's number at its end. */
export function messageId(index: number): string {
  return randomUUID().slice(0, -12) + index.toString(16).padStart(12, '0');
}

export function indexOf(id: string): number {
  return Number.parseInt(id.slice(-12), 16);
}

/** The task of every contender: take items in for good, and deliver each. */
export interface Forwarder {
  /** Where its pages are, if it has any. */
  readonly address?: string;
  /** Resolves once the items would survive a crash (as far as the contender's store does). */
  enqueue(items: readonly Item[]): Promise<void>;
  stop(): Promise<void>;
}

export interface Work {
  readonly url: string;
  /** Authorities to trust, PEM, as `network.ca` brings them; empty for plain HTTP. */
  readonly ca: readonly string[];
  /** A folder on the disk of the checkout. */
  readonly folder: string;
  readonly onDelivered: (index: number) => void;
}

export { SECRET };

/** The post of everyone but Rollcall: signed, over undici's fastest way, with at most 64 connections. */
export function poster({ url, ca }: Work): { post(body: string, id: string): Promise<void>; close(): Promise<void> } {
  const agent = new Agent({ connections: CONNECTIONS, pipelining: 1, allowH2: false, connect: { ca: [...ca] } });
  const key = createSecretKey(SECRET, 'utf8');
  const { origin, pathname } = new URL(url);
  const post = (text: string, id: string) =>
    new Promise<void>((resolve, reject) => {
      const body = Buffer.from(text);
      const signature = createHmac('sha1', key).update(body).digest('hex');
      const fixed = ['user-agent', 'Rollcall/1.0', 'content-type', 'application/json'];
      const headers = [...fixed, 'idempotency-key', id, 'x-signature', signature];
      let status = 0;
      agent.dispatch(
        { origin, path: pathname, method: 'POST', headers, body },
        {
          onRequestStart() {},
          onResponseStart(_, code) {
            status = code;
          },
          onResponseData() {},
          onResponseEnd: () => (status === 200 ? resolve() : reject(new Error(`status ${status}`))),
          onResponseError: (_, error) => reject(error),
        },
      );
    });
  return { post, close: () => agent.close() };
}
