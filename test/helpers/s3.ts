import { createHash, createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream, statSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';
import type { Test } from 'tap';
import type { BucketConfig } from '../../src/config/config.ts';

export const KEY_ID = 'KEY';
export const SECRET = 's3cret-s3cret';

const SETTINGS = {
  ...{ path: 's3://bucket/some/log', region: 'us-east-1' },
  credentials: { keyId: KEY_ID, secret: SECRET },
};

/** The same as a configuration that was read. */
export const bucketOf = ({ endpoint }: S3Server): BucketConfig => ({
  ...{ bucket: 'bucket', prefix: 'some/log', endpoint, region: 'us-east-1', cacheBytes: 1e9 },
  credentials: { keyId: KEY_ID, secret: SECRET, token: null },
});

interface Stored {
  /** Empty if it is the file at `path`. */
  readonly body: Buffer;
  readonly bytes: number;
  readonly path?: string;
  readonly etag: string;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** A fault of one request: an answer, a connection that is cut, a body of which half is kept, a PUT that is done later. */
export type S3Fault = 503 | 403 | 'cut' | 'cut answer' | 'half' | 'keep half' | 'late';

export interface S3Server {
  readonly endpoint: string;
  /** Settings of `eventLog` for a log in it. */
  readonly settings: typeof SETTINGS & { readonly endpoint: string };
  /** Objects by key, prefix included. */
  readonly objects: ReadonlyMap<string, Stored>;
  /** `METHOD KEY` of each request. */
  readonly requests: string[];
  /** The next requests that match get these faults, one each. */
  fail(pattern: RegExp, ...faults: readonly S3Fault[]): void;
  /** Each request gets a fault with this chance. */
  failOften(chance: (() => S3Fault | null) | null): void;
  /** Refuse connections, or take them again. */
  away(isAway: boolean): void;
  /** Let this time pass by the server's clock. */
  age(ms: number): void;
  /** Carry out what came late. */
  land(): void;
  put(key: string, body: string | Buffer): void;
  /** Show a file as an object. */
  link(key: string, path: string): void;
  delete(key: string): void;
  /** Keys of objects that hold these bytes. */
  holding(bytes: string): string[];
}

/** The part of S3 that logs in object storage need: signed requests, conditions, ranges, pages. One bucket, `bucket`. */
export async function startS3(t: Pick<Test, 'teardown'>, { pageSize = 1_000 } = {}): Promise<S3Server> {
  const objects = new Map<string, Stored>();
  const requests: string[] = [];
  const planned: { readonly pattern: RegExp; readonly faults: S3Fault[] }[] = [];
  const late: (() => void)[] = [];
  let chance: (() => S3Fault | null) | null = null;
  let isAway = false;
  let ahead = 0;
  const store = (key: string, body: Buffer) => {
    const etag = `"${createHash('md5').update(body).digest('hex')}"`;
    objects.set(key, { body, bytes: body.length, etag, at: Date.now() + ahead });
    return etag;
  };
  const faultOf = (line: string): S3Fault | null => {
    const found = planned.find(({ pattern, faults }) => faults.length > 0 && pattern.test(line));
    return found?.faults.shift() ?? chance?.() ?? null;
  };

  /** Status of the answer. */
  function putObject(key: string, headers: IncomingHttpHeaders, body: Buffer): number {
    const { 'if-none-match': none, 'if-match': match } = headers;
    const known = objects.get(key);
    if (match !== undefined && !known) return 404;
    if ((none === '*' && known) || (match !== undefined && match !== known?.etag)) return 412;
    store(key, body);
    return 200;
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', headers, socket } = request;
    const url = new URL(request.url ?? '', 'http://s3');
    const key = decodeURIComponent(url.pathname).replace(/^\/bucket\/?/, '');
    requests.push(`${method} ${key}`);
    response.setHeader('date', new Date(Date.now() + ahead).toUTCString());
    const fault = faultOf(`${method} ${key}`);
    if (isAway || fault === 'cut') return void socket.destroy();
    const body = await bodyOf(request, fault === 'half' ? 0.5 : 1);
    if (fault === 'half') return void socket.destroy();
    if (typeof fault === 'number') return refuse(response, fault, fault === 503 ? 'SlowDown' : 'AccessDenied');
    if (!isSigned(request, url)) return refuse(response, 403, 'SignatureDoesNotMatch');
    const sha256 = headers['x-amz-content-sha256'];
    if (method === 'PUT' && sha256 !== 'UNSIGNED-PAYLOAD' && sha256 !== createHash('sha256').update(body).digest('hex'))
      return refuse(response, 400, 'XAmzContentSHA256Mismatch');
    if (!url.pathname.startsWith('/bucket')) return refuse(response, 404, 'NoSuchBucket');
    const known = objects.get(key);
    if (url.searchParams.has('list-type')) return void response.end(listed(url.searchParams));
    if (method === 'PUT') {
      if (fault === 'late') {
        late.push(() => putObject(key, headers, body));
        return void socket.destroy();
      }
      const status = putObject(key, headers, fault === 'keep half' ? body.subarray(0, body.length >> 1) : body);
      if (status !== 200) return refuse(response, status, 'PreconditionFailed');
      if (fault === 'cut answer') return void socket.destroy();
      return void response.setHeader('etag', objects.get(key)?.etag ?? '').end();
    }
    if (method === 'DELETE') {
      objects.delete(key);
      return void response.writeHead(204).end();
    }
    if (!known) return refuse(response, 404, 'NoSuchKey');
    const { bytes, path, etag, at } = known;
    const [, first = '', last = ''] = /bytes=(\d*)-(\d*)/.exec(headers.range ?? '') ?? [];
    // `bytes=-8` asks for the last 8.
    const start = first === '' && last !== '' ? Math.max(0, bytes - Number(last)) : Number(first);
    const end = first === '' || last === '' ? bytes - 1 : Math.min(bytes - 1, Number(last));
    response.writeHead(headers.range === undefined ? 200 : 206, {
      ...{ 'content-length': end + 1 - start, etag, 'last-modified': new Date(at).toUTCString() },
      ...{ 'accept-ranges': 'bytes' },
      ...(headers.range === undefined ? {} : { 'content-range': `bytes ${start}-${end}/${bytes}` }),
    });
    if (method === 'HEAD') return void response.end();
    if (path !== undefined) return pipeline(createReadStream(path, { start, end }), response);
    const part = known.body.subarray(start, end + 1);
    if (fault !== 'cut answer') return void response.end(part);
    response.write(part.subarray(0, part.length >> 1), () => socket.destroy());
  }

  function listed(query: URLSearchParams): string {
    const prefix = query.get('prefix') ?? '';
    const after = query.get('continuation-token') ?? query.get('start-after') ?? '';
    const delimiter = query.get('delimiter') ?? '';
    const keys = [...objects.keys()].filter((key) => key.startsWith(prefix) && key > after).sort();
    const page = keys.slice(0, Math.min(pageSize, Number(query.get('max-keys') ?? pageSize)));
    const isCut = page.length < keys.length;
    const folderOf = (key: string) => {
      const end = delimiter === '' ? -1 : key.indexOf(delimiter, prefix.length);
      return end === -1 ? null : key.slice(0, end + 1);
    };
    const shown = (text: string) => (query.get('encoding-type') === 'url' ? encodeURIComponent(text) : escaped(text));
    const folders = new Set(page.flatMap((key) => folderOf(key) ?? []));
    const contents = page
      .filter((key) => folderOf(key) === null)
      .map((key) => {
        const { bytes, etag, at } = objects.get(key) as Stored;
        return `<Contents><Key>${shown(key)}</Key><LastModified>${new Date(at).toISOString()}</LastModified><ETag>${escaped(etag)}</ETag><Size>${bytes}</Size><StorageClass>STANDARD</StorageClass></Contents>`;
      });
    const common = [...folders].map((folder) => `<CommonPrefixes><Prefix>${shown(folder)}</Prefix></CommonPrefixes>`);
    const next = isCut ? `<NextContinuationToken>${escaped(page.at(-1) ?? '')}</NextContinuationToken>` : '';
    return `<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name><Prefix>${shown(prefix)}</Prefix><KeyCount>${page.length}</KeyCount><MaxKeys>${pageSize}</MaxKeys><IsTruncated>${isCut}</IsTruncated>${next}${contents.join('')}${common.join('')}</ListBucketResult>`;
  }

  const server = createServer((request, response) => {
    const { socket } = request;
    answer(request, response).catch(() => socket.destroy());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const endpoint = `http://127.0.0.1:${port}`;
  return {
    endpoint,
    settings: { ...SETTINGS, endpoint },
    objects,
    requests,
    fail: (pattern, ...faults) => void planned.push({ pattern, faults: [...faults] }),
    failOften(often) {
      chance = often;
    },
    away(is) {
      isAway = is;
    },
    age(ms) {
      ahead += ms;
    },
    land() {
      for (const carryOut of late.splice(0)) carryOut();
    },
    put: (key, body) => void store(key, Buffer.from(body)),
    link(key, path) {
      const { size, ino } = statSync(path);
      objects.set(key, { body: Buffer.alloc(0), bytes: size, path, etag: `"${ino}-${size}"`, at: Date.now() + ahead });
    },
    delete: (key) => void objects.delete(key),
    holding: (bytes) => [...objects].filter(([, { body }]) => body.includes(bytes)).map(([key]) => key),
  };
}

/** The bytes of a request, without the frames in which some clients sign them. @param part - to read of it */
async function bodyOf(request: IncomingMessage, part: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  const wanted = Number(request.headers['content-length'] ?? 0) * part;
  let read = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    read += chunk.length;
    if (part < 1 && read >= wanted) break;
  }
  return Buffer.concat(chunks);
}

function refuse(response: ServerResponse, status: number, code: string): void {
  response.writeHead(status, { 'content-type': 'application/xml' });
  response.end(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code></Error>`);
}

const escaped = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

/** Checks the signature (AWS Signature Version 4), written from its specification. */
function isSigned({ method, headers }: IncomingMessage, url: URL): boolean {
  const pattern =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d+)\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=(\w+)$/;
  const [, keyId, day = '', region = '', names = '', signature] = pattern.exec(headers.authorization ?? '') ?? [];
  if (keyId !== KEY_ID) return false;
  const strict = (text: string) =>
    encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
  const path = decodeURIComponent(url.pathname).split('/').map(strict).join('/');
  const query = [...url.searchParams].map((pair) => pair.map(strict).join('=')).sort();
  const signed = names.split(';').map(
    (name) =>
      `${name}:${String(headers[name] ?? '')
        .trim()
        .replace(/\s+/g, ' ')}\n`,
  );
  const canonical = [method, path, query.join('&'), signed.join(''), names, headers['x-amz-content-sha256']].join('\n');
  const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest();
  const key = [day, region, 's3', 'aws4_request'].reduce<string | Buffer>(hmac, `AWS4${SECRET}`);
  const hash = createHash('sha256').update(canonical).digest('hex');
  const text = ['AWS4-HMAC-SHA256', headers['x-amz-date'], `${day}/${region}/s3/aws4_request`, hash].join('\n');
  return hmac(key, text).toString('hex') === signature;
}

/** Faults after which a request may be sent again, for one of `many` requests. */
export const failing = (random: (below: number) => number, many: number) => (): S3Fault | null => {
  const faults = [503, 'cut', 'half', 'cut answer'] as const;
  return random(many) === 1 ? (faults[random(faults.length) - 1] ?? null) : null;
};
