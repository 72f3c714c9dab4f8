import { once } from 'node:events';
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { setTimeout as wait } from 'node:timers/promises';
import type { Kind } from '../bodies.ts';
import { type Secret, sign } from '../signature.ts';
import { signStandard } from '../verify/standard.ts';

/** A receiver's answer. */
export interface Sent {
  status: number;
  /** The content type; empty if there is none. */
  type: string;
  body: string;
}

export interface SendOptions {
  /** Replace or add to the usual ones. `undefined` omits a header, an array sends it several times. */
  headers?: Record<string, string | string[] | undefined>;
  /** Sizes of the pieces in which the body is written. The rest follows in one piece. */
  pieces?: number[];
  /** Milliseconds to wait before each piece. */
  delay?: number;
  /** Send only the pieces and leave the request open. */
  unfinished?: boolean;
  /** The id, and the time in milliseconds since 1970, that Standard Webhooks sign (default: a new id, now). */
  id?: string;
  at?: number;
}

/** Which headers sign a request. */
export type Signing = 'x-signature' | 'standard' | 'both';

/** The receiver's address, and how requests are signed (default: by `X-Signature`). */
export interface SenderOptions {
  url: string;
  secret: Secret;
  signing?: Signing | undefined;
  /** Milliseconds until a request without an answer fails (default 10,000): some receivers wait for bytes that never arrive. */
  timeout?: number | undefined;
}

/** A sender of webhooks that can misbehave. Objects are sent as JSON. */
export interface Sender {
  send(body: unknown, options?: SendOptions): Promise<Sent>;
  /** Sends several bodies in one request, as a destination with `batch` does. Makes `keys` unless they are given. */
  batch(bodies: readonly unknown[], options?: SendOptions & { keys?: readonly string[]; sentAt?: Date }): Promise<Sent>;
  /** Sends the same bytes several times in sequence. */
  repeat(body: unknown, times: number): Promise<Sent[]>;
  /** Sends the same bytes several times concurrently. */
  together(body: unknown, times: number): Promise<Sent[]>;
  /** Sends bodies in another order (default: last first). */
  reorder(bodies: readonly unknown[], order?: readonly number[]): Promise<Sent[]>;
  /** Changes one bit of the body after it was signed. */
  corrupt(body: unknown, bit?: number): Promise<Sent>;
  /** Announces the whole body, sends half of it and closes the connection. */
  cutOff(body: unknown): Promise<void>;
}

const toBytes = (body: unknown): Buffer => {
  if (body instanceof Uint8Array) return Buffer.from(body);
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
};

export interface SignedOptions {
  signing?: Signing | undefined;
  id?: string | undefined;
  /** Milliseconds since 1970. */
  at?: number | undefined;
}

function signatures(bytes: Buffer, secret: Secret, options: SignedOptions): Record<string, string> {
  const { signing = 'x-signature', id = `msg-${crypto.randomUUID()}`, at = Date.now() } = options;
  return {
    ...(signing !== 'standard' && { 'x-signature': sign(bytes, secret) }),
    ...(signing !== 'x-signature' && signStandard(bytes, secret, { id, at })),
  };
}

/** Headers and bytes of a signed request, for `fetch`, `app.inject` and the like. */
export function signed(
  body: unknown,
  secret: Secret,
  options: SignedOptions = {},
): { headers: Record<string, string>; body: string } {
  const bytes = toBytes(body);
  return {
    headers: { 'content-type': 'application/json', ...signatures(bytes, secret, options) },
    body: bytes.toString('utf8'),
  };
}

/** The envelope of a batch. Keys are in the order of the messages. */
export function envelope(
  bodies: readonly unknown[],
  { keys, sentAt = new Date() }: { keys?: readonly string[] | undefined; sentAt?: Date | undefined } = {},
): string {
  const texts = bodies.map((body) => toBytes(body).toString('utf8'));
  const given = keys ?? bodies.map(() => `key-${crypto.randomUUID()}`);
  return `{"batch":[${texts.join(',')}],"keys":${JSON.stringify(given)},"sentAt":${JSON.stringify(sentAt.toISOString())}}`;
}

const extras: Record<Kind, Record<string, unknown>> = {
  identify: { traits: { plan: 'pro' } },
  track: { event: 'Order Completed', properties: { total: 12.5 } },
  page: { properties: { path: '/', referrer: '', title: 'Home', url: 'https://shop.example/' } },
  screen: { name: 'Home', context: { os: { name: 'iOS', version: '26.0' } } },
  group: { groupId: 'g1', traits: { name: 'Example' } },
  alias: { 'Previous ID': 'anonymous-1', 'User ID': 'u1' },
  delete: { userId: 'u1' },
};

/** Makes a valid body of a kind, different each time. `fields` replace or add. */
export function webhook(kind: Kind, fields: Record<string, unknown> = {}): Record<string, unknown> {
  const timestamp = new Date().toISOString();
  if (kind === 'delete') return { type: kind, userId: `u-${crypto.randomUUID()}`, timestamp, ...fields };
  const ids = kind === 'alias' ? {} : { userId: 'u1', messageId: crypto.randomUUID() };
  const own = kind === 'alias' ? { ...extras.alias, 'Previous ID': crypto.randomUUID() } : extras[kind];
  return { version: 1, type: kind, ...ids, context: {}, ...own, timestamp, ...fields };
}

/** The most characters of an answer that are read. */
const ANSWER_LIMIT = 1024 * 1024;

async function answerOf(request: ClientRequest): Promise<Sent> {
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  response.setEncoding('utf8');
  let body = '';
  for await (const chunk of response) {
    body += chunk;
    if (body.length > ANSWER_LIMIT) throw new Error(`the answer is longer than ${ANSWER_LIMIT}`);
  }
  return { status: response.statusCode as number, type: response.headers['content-type'] ?? '', body };
}

async function write(
  request: ClientRequest,
  bytes: Buffer,
  { pieces = [], delay, unfinished }: SendOptions,
): Promise<void> {
  let at = 0;
  for (const size of pieces) {
    if (delay !== undefined) await wait(delay);
    const piece = bytes.subarray(at, at + size);
    at += size;
    await new Promise<void>((resolve) => request.write(piece, () => resolve()));
  }
  if (unfinished) return;
  if (delay !== undefined) await wait(delay);
  request.end(bytes.subarray(at));
}

function open(
  { url, secret, signing, timeout = 10_000 }: SenderOptions,
  bytes: Buffer,
  { headers = {}, id, at }: SendOptions = {},
): ClientRequest {
  const all = {
    'content-type': 'application/json',
    'content-length': String(bytes.length),
    'user-agent': 'Rollcall/1.0',
    ...signatures(bytes, secret, { signing, id, at }),
    ...headers,
  };
  const given = Object.entries(all).filter(([, value]) => value !== undefined) as [string, string | string[]][];
  const target = new URL(url);
  const make = target.protocol === 'https:' ? httpsRequest : httpRequest;
  const request = make(target, { method: 'POST', headers: Object.fromEntries(given), agent: false });
  const late = setTimeout(() => request.destroy(new Error(`no answer within ${timeout} ms`)), timeout);
  // An error after the head of an answer shows when its body is read.
  return request.on('error', () => {}).on('close', () => clearTimeout(late));
}

/** A sender for one receiver. */
export function createSender(options: SenderOptions): Sender {
  const sender = { ...options, url: new URL(options.url).href };
  async function send(body: unknown, options: SendOptions = {}): Promise<Sent> {
    const bytes = toBytes(body);
    const request = open(sender, bytes, options);
    const answer = answerOf(request);
    // The receiver may answer before it has read everything.
    await Promise.race([write(request, bytes, options), answer]);
    try {
      return await answer;
    } finally {
      request.destroy();
    }
  }

  return {
    send,
    batch: (bodies, options = {}) => send(envelope(bodies, options), options),
    async repeat(body, times) {
      const bytes = toBytes(body);
      const sent: Sent[] = [];
      while (sent.length < times) sent.push(await send(bytes));
      return sent;
    },
    together(body, times) {
      const bytes = toBytes(body);
      return Promise.all(Array.from({ length: times }, () => send(bytes)));
    },
    async reorder(bodies, order = [...bodies.keys()].reverse()) {
      const sent: Sent[] = [];
      for (const place of order) sent.push(await send(bodies[place]));
      return sent;
    },
    corrupt(body, bit = 80) {
      const bytes = toBytes(body);
      const signature = sign(bytes, sender.secret);
      const place = (bit >> 3) % bytes.length;
      bytes[place] = (bytes[place] as number) ^ (1 << (bit & 7));
      return send(bytes, { headers: { 'x-signature': signature } });
    },
    async cutOff(body) {
      const bytes = toBytes(body);
      const request = open(sender, bytes);
      await new Promise<void>((resolve) => request.write(bytes.subarray(0, bytes.length >> 1), () => resolve()));
      const closed = new Promise<void>((resolve) => request.on('close', resolve));
      request.destroy();
      await closed;
    },
  };
}
