/** How each contender's sender signs. Every request has bytes of its own, so that none is a duplicate. */
import { createHmac } from 'node:crypto';
import { bodyMaker } from '../bodies.ts';

export const secret = 'a shared secret of usual length';
export const base64Secret = Buffer.from('a shared secret of 24 by').toString('base64');

const hmac = (algorithm: string, key: string | Buffer, text: string) => createHmac(algorithm, key).update(text);

type Scheme = (body: string, n: number) => Record<string, string>;

const rollcall: Scheme = (body, n) => ({
  'x-signature': hmac('sha1', secret, body).digest('hex'),
  'idempotency-key': `d${n}`,
});

// Taken anew for every signature: the peers refuse what is older than five minutes, and a whole run takes longer.
const seconds = () => Math.floor(Date.now() / 1000);

const standard =
  (prefix: string): Scheme =>
  (body, n) => {
    const now = seconds();
    const signed = hmac('sha256', Buffer.from(base64Secret, 'base64'), `m${n}.${now}.${body}`).digest('base64');
    return {
      [`${prefix}-id`]: `m${n}`,
      [`${prefix}-timestamp`]: `${now}`,
      [`${prefix}-signature`]: `v1,${signed}`,
    };
  };

export const schemes: Record<string, Scheme> = {
  plain: rollcall,
  ours: rollcall,
  'fastify-raw-body': rollcall,
  standardwebhooks: standard('webhook'),
  svix: standard('svix'),
  octokit: (body, n) => ({
    'x-github-delivery': `d${n}`,
    'x-hub-signature-256': `sha256=${hmac('sha256', secret, body).digest('hex')}`,
  }),
  stripe(body) {
    const now = seconds();
    return { 'stripe-signature': `t=${now},v1=${hmac('sha256', secret, `${now}.${body}`).digest('hex')}` };
  },
};

/** A whole HTTP request, ready to be written to a socket. */
function request(scheme: Scheme, body: string, n: number): Buffer {
  const headers = {
    host: '127.0.0.1',
    'user-agent': 'Rollcall/1.0',
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    ...scheme(body, n),
  };
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.from(`POST /hooks HTTP/1.1\r\n${head.join('')}\r\n${body}`);
}

/** Track bodies of `kb` thousand bytes by number. */
function numbered(kb: number): (n: number) => string {
  const bodyOf = bodyMaker(kb);
  return (n) => bodyOf(`user-${n}`, `message-${n}`);
}

/** Requests of one message each, numbered from `from` on. */
export function requests(contender: string, kb: number, count: number, from = 0): Buffer[] {
  const scheme = schemes[contender]!;
  const bodyOf = numbered(kb);
  return Array.from({ length: count }, (_, n) => request(scheme, bodyOf(from + n), from + n));
}

/** The same messages, `perRequest` in each, as a destination with `batch` sends them. */
export function batchRequests(kb: number, perRequest: number, count: number, from = 0): Buffer[] {
  const bodyOf = numbered(kb);
  return Array.from({ length: count / perRequest }, (_, place) => {
    const numbers = Array.from({ length: perRequest }, (_, n) => from + place * perRequest + n);
    const keys = numbers.map((n) => `d${n}`);
    const bodies = numbers.map(bodyOf).join(',');
    const body = `{"batch":[${bodies}],"keys":${JSON.stringify(keys)},"sentAt":"${new Date().toISOString()}"}`;
    return request(rollcall, body, place);
  });
}
