import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { type Readable, Writable } from 'node:stream';
import { text as readText } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { AwsV4Signer } from 'aws4fetch';
import { Agent, type Dispatcher, request } from 'undici';
import type { BucketConfig } from '../../config/config.ts';
import { systemClock } from '../../kernel/clock.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { backoff } from '../../kernel/retry.ts';
import type { BucketTraffic } from '../events/files.ts';

/** Milliseconds without a byte after which a request is given up. */
const SILENCE = 10_000;
/** Tries of a request, and the base and cap of the waits between them in milliseconds. */
const TRIES = 5;
/** Milliseconds after a request that failed for good in which others are tried once: a stop must not take minutes. */
const AWAY = 30_000;
const WAIT = { base: 200, cap: 5_000 };
const AGAIN: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504]);
/** Characters of an answer that is an error. */
const ERROR_LIMIT = 4_096;
const NOT_FOUND = 404;
/** Answers to a conditional write whose condition does not hold, or that meets another one. */
const CONFLICT = [409, 412];
const MOST_PAGES = 10_000;

type Answer = Dispatcher.ResponseData;

interface Call {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'DELETE';
  /** Absent for the bucket itself. */
  readonly key?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** Makes the body for each try. */
  readonly body?: () => Readable | string;
  /** Statuses besides those of success that are read. */
  readonly expected?: readonly number[];
}

/** The text of an object, and the server's facts about it. */
interface StoredText {
  readonly text: string;
  readonly etag: string;
  /** Milliseconds since it was written, by the server's clock. */
  readonly age: number;
}

interface Checksum {
  readonly bytes: number;
  /** Hexadecimal. */
  readonly sha256: string;
}

/** A bucket of an object store that speaks S3. No request goes anywhere but to its endpoint. */
export class Bucket {
  private readonly config: BucketConfig;
  private readonly agent = new Agent({
    ...{ headersTimeout: SILENCE, bodyTimeout: SILENCE, connect: { timeout: SILENCE / 2 } },
  });

  private awayUntil = 0;
  readonly traffic: BucketTraffic = { requests: { ok: 0, retried: 0, failed: 0 }, bytes: { sent: 0, received: 0 } };

  constructor(config: BucketConfig) {
    this.config = config;
  }

  /** The place of a key as people name it. */
  place(key: string): string {
    const { bucket, prefix } = this.config;
    return `s3://${[bucket, prefix, key].filter((part) => part !== '').join('/')}`;
  }

  /** Null if there is no such object. */
  text(key: string): Promise<StoredText | null> {
    return this.send({ method: 'GET', key, expected: [NOT_FOUND] }, async ({ statusCode, headers, body }) => {
      const text = await readText(body);
      if (statusCode === NOT_FOUND) return null;
      const time = (name: string) => Date.parse(String(headers[name]));
      return { text, etag: String(headers['etag']), age: time('date') - time('last-modified') };
    });
  }

  /**
   * Write a text if the object still is as it was read; false if not.
   *
   * @param before - its ETag then; null if there was no such object
   */
  putText(key: string, text: string, before: string | null): Promise<boolean> {
    const sha256 = createHash('sha256').update(text).digest('hex');
    return this.put(key, before, { 'x-amz-content-sha256': sha256 }, () => text);
  }

  /** Write a file. The server compares it with its checksum. */
  async upload(key: string, path: string): Promise<void> {
    const { bytes, sha256 } = await checksumOf(createReadStream(path));
    const headers = { 'content-length': String(bytes), 'x-amz-content-sha256': sha256 };
    // A try that was given up may be carried out later: then it must not replace what was written after it.
    const before = await this.find(key);
    await this.put(key, before?.etag ?? null, headers, () => createReadStream(path));
    this.traffic.bytes.sent += bytes;
    const stored = await this.checksum(key);
    if (stored?.bytes !== bytes || stored.sha256 !== sha256)
      throw new RollcallError(
        'bucket_failed',
        `${this.place(key)} is not as it was written: the bucket keeps it damaged.`,
      );
  }

  /** False if the object is not as it was before: also if an earlier try has written this one. */
  private put(
    key: string,
    before: string | null,
    headers: NonNullable<Call['headers']>,
    body: NonNullable<Call['body']>,
  ): Promise<boolean> {
    const [condition, expected] =
      before === null ? [{ 'if-none-match': '*' }, CONFLICT] : [{ 'if-match': before }, [...CONFLICT, NOT_FOUND]];
    const call: Call = { method: 'PUT', key, headers: { ...condition, ...headers }, body, expected };
    return this.send(call, async ({ statusCode, body }) => {
      await body.dump();
      return statusCode < 300;
    });
  }

  /** Read an object to its end; null if there is none. @param path - of a file to write it to */
  checksum(key: string, path: string | null = null): Promise<Checksum | null> {
    return this.send({ method: 'GET', key, expected: [NOT_FOUND] }, async ({ statusCode, body }) => {
      if (statusCode === NOT_FOUND) return body.dump().then(() => null);
      const found = await checksumOf(body, path === null ? null : createWriteStream(path));
      this.traffic.bytes.received += found.bytes;
      return found;
    });
  }

  /** Null if there is no such object. */
  find(key: string): Promise<{ readonly bytes: number; readonly etag: string } | null> {
    return this.send({ method: 'HEAD', key, expected: [NOT_FOUND] }, async ({ statusCode, headers, body }) => {
      await body.dump();
      if (statusCode === NOT_FOUND) return null;
      return { bytes: Number(headers['content-length']), etag: String(headers['etag']) };
    });
  }

  async remove(key: string): Promise<void> {
    await this.send({ method: 'DELETE', key, expected: [NOT_FOUND] }, ({ body }) => body.dump());
  }

  /** The keys below the prefix, with their sizes. */
  async list(): Promise<readonly { readonly key: string; readonly bytes: number }[]> {
    const { prefix } = this.config;
    const below = prefix === '' ? '' : `${prefix}/`;
    const found: { key: string; bytes: number }[] = [];
    let next: string | null = null;
    for (let page = 0; page < MOST_PAGES; page += 1) {
      const query: Record<string, string> = { 'list-type': '2', prefix: below, 'encoding-type': 'url' };
      if (next !== null) query['continuation-token'] = next;
      const xml: string = await this.send({ method: 'GET', query }, ({ body }) => readText(body));
      for (const [, part = ''] of xml.matchAll(/<Contents>(.*?)<\/Contents>/gs)) {
        const key = decodeURIComponent(valueIn(part, 'Key').replaceAll('+', ' '));
        found.push({ key: key.slice(below.length), bytes: Number(valueIn(part, 'Size')) });
      }
      if (valueIn(xml, 'IsTruncated') !== 'true') return found;
      next = unescaped(valueIn(xml, 'NextContinuationToken'));
    }
    throw new RollcallError('bucket_failed', `${this.place('')} has more objects than an event log.`);
  }

  /**
   * Send a request, again if it may succeed later. Reading the answer is part of it.
   *
   * @throws RollcallError `bucket_failed`
   */
  private async send<T>(call: Call, read: (answer: Answer) => Promise<T>): Promise<T> {
    const { requests } = this.traffic;
    for (let tries = 1; ; tries += 1) {
      try {
        const result = await this.once(call, read);
        requests.ok += 1;
        this.awayUntil = 0;
        return result;
      } catch (error) {
        const isFinal = error instanceof RollcallError || tries === TRIES || systemClock.monotonic() < this.awayUntil;
        requests[isFinal ? 'failed' : 'retried'] += 1;
        if (error instanceof RollcallError) throw error;
        if (isFinal) {
          this.awayUntil = systemClock.monotonic() + AWAY;
          throw this.failed(call, error instanceof Error ? error.message : String(error));
        }
      }
      await systemClock.sleep(backoff(tries, systemClock.random(), WAIT.base, WAIT.cap));
    }
  }

  private async once<T>(call: Call, read: (answer: Answer) => Promise<T>): Promise<T> {
    const { method, body, expected = [] } = call;
    const { url, headers } = await this.sign(call);
    const answer = await request(url, {
      ...{ method, dispatcher: this.agent, headers: Object.fromEntries(headers), body: body?.() ?? null },
    });
    const { statusCode } = answer;
    if (statusCode < 300 || expected.includes(statusCode)) return read(answer);
    const text = (await readText(answer.body)).slice(0, ERROR_LIMIT);
    const reason = `${statusCode} ${valueIn(text, 'Code')}`.trim();
    throw AGAIN.has(statusCode) ? new Error(reason) : this.failed(call, reason);
  }

  private sign({ method, key, query = {}, headers = {} }: Call) {
    const { bucket, prefix, endpoint, region, credentials } = this.config;
    if (credentials === null)
      throw new RollcallError(
        'bucket_failed',
        'There are no credentials for the bucket: set eventLog.credentials, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.',
      );
    const path = key === undefined ? bucket : [bucket, prefix, key].filter((part) => part !== '').join('/');
    const url = new URL(endpoint);
    url.pathname = `${url.pathname.replace(/\/$/, '')}/${path.split('/').map(encodeURIComponent).join('/')}`;
    url.search = new URLSearchParams(query).toString();
    return new AwsV4Signer({
      ...{ method, url: url.href, headers, region, service: 's3' },
      ...{ accessKeyId: credentials.keyId, secretAccessKey: credentials.secret },
      ...(credentials.token === null ? {} : { sessionToken: credentials.token }),
    }).sign();
  }

  private failed({ method, key = '' }: Call, reason: string): RollcallError {
    const { endpoint } = this.config;
    return new RollcallError('bucket_failed', `${method} ${this.place(key)} at ${endpoint} failed: ${reason}.`);
  }
}

/** Read a stream to its end. @param target - gets what it has */
async function checksumOf(source: Readable, target: Writable | null = null): Promise<Checksum> {
  const hash = createHash('sha256');
  let bytes = 0;
  await pipeline(
    source,
    async function* (chunks: AsyncIterable<Buffer>) {
      for await (const chunk of chunks) {
        hash.update(chunk);
        bytes += chunk.length;
        if (target) yield chunk;
      }
    },
    target ?? new Writable({ write: (_chunk, _encoding, done) => done() }),
  );
  return { bytes, sha256: hash.digest('hex') };
}

/** The text of the first XML element of this name; empty if there is none. */
const valueIn = (xml: string, name: string): string => new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml)?.[1] ?? '';

const unescaped = (text: string): string =>
  text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&quot;', '"').replaceAll('&amp;', '&');
