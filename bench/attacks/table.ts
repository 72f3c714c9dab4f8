/** The attacks of `npm run bench:attacks`: what strangers do to the service, and what endpoints answer to it. */
import { gzipSync } from 'node:zlib';
import { ENDLESS } from '../../test/deliver/helpers/raw-answers.ts';

export interface Attack {
  /** Connections at a time, from 250 addresses. */
  readonly connections?: number;
  /** Bytes that the n-th connection sends at once. */
  readonly first?: (n: number) => string | Buffer;
  /** Sent on each connection from then on. */
  readonly more?: { readonly bytes: string | Buffer; readonly every: number };
  /** True if a connection ends with the first byte of an answer. */
  readonly endsWithAnswer?: boolean;
  /** False if no answer is ever read. */
  readonly reads?: boolean;
  /** Milliseconds until an ended connection is opened again; five seconds unless given. */
  readonly again?: number;
  /** Descriptors that the service may have; as many as the system allows unless given. */
  readonly descriptors?: number;
  /** Replaces the answers of endpoints: the beginning of the n-th, and the part that is repeated after it. */
  readonly endpoint?: (n: number) => readonly [first: string, more: string];
}

const KEY = 'authorization: Basic V0s6';

function head(path: string, length: number, headers = 'content-type: application/json'): string {
  return `POST ${path} HTTP/1.1\r\nhost: localhost\r\n${headers}\r\ncontent-length: ${length}\r\n\r\n`;
}

function whole(path: string, body: Buffer, headers?: string): Buffer {
  return Buffer.concat([Buffer.from(head(path, body.length, headers)), body]);
}

/** Request bodies may be sent to each of these; the last one does not exist. */
const PATHS = ['/v1/batch', '/v1/track', '/regulations', '/api/v1/session', '/metrics', '/docs/json', '/', '/nope'];
/** All but ten bytes of a body that Rollcall would take, and of one that only a server without a limit reads. */
const UNFINISHED = [500_000, 1_048_576].flatMap((length) =>
  PATHS.map((path) => Buffer.from(head(path, length) + ' '.repeat(length - 10))),
);

const DOCUMENTS = ['/docs/yaml', '/docs/json', '/api/v1/openapi.json', '/docs/static/swagger-ui-bundle.js', '/'];
const PIPELINED = DOCUMENTS.map((path) => `GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`.repeat(7));

const KNOWN_BODY = Buffer.from(
  `${head('/v1/batch', 500_000, `${KEY}\r\ncontent-type: application/json`)}${' '.repeat(499_990)}`,
);
const TRACK = whole('/v1/track', Buffer.from('{"event":"a","userId":"u"}'), KEY);

/** As many requests as fit one read of a socket. */
const MANY = [Buffer.from('GET /nope HTTP/1.1\r\nhost: localhost\r\n\r\n'), TRACK].map((request) =>
  Buffer.alloc(65_536, request),
);

const nested = Buffer.from('['.repeat(1_000_000));
const long = gzipSync(`{"batch":[${'1,'.repeat(249_000)}1]}`);
/** It says at its end that it holds nothing. */
const lie = Buffer.from(long);
lie.writeUInt32LE(0, lie.length - 4);
const GZIP = 'content-encoding: gzip';
const BOMBS = [
  ...PATHS.map((path) => whole(path, nested)),
  ...[gzipSync(`{"batch":[${'['.repeat(490_000)}`), long, lie].map((body) => whole('/v1/batch', body, GZIP)),
];

const of =
  <T>(list: readonly T[]) =>
  (n: number) =>
    list[n % list.length]!;
const endless = (isAnswered: boolean) =>
  of(Object.values(ENDLESS).flatMap(([status, ...parts]) => ((status !== null) === isAnswered ? [parts] : [])));

export const ATTACKS: Readonly<Record<string, Attack>> = {
  connections: { connections: 5_000, first: () => '' },
  'slow heads': {
    connections: 1_500,
    first: () => 'POST /v1/batch HTTP/1.1\r\nhost: localhost\r\n',
    more: { bytes: 'a: b\r\n', every: 1_000 },
  },
  'slow bodies': {
    connections: 1_500,
    first: of(PATHS.map((path) => head(path, 500_000))),
    more: { bytes: ' ', every: 1_000 },
  },
  bodies: { connections: 1_000, first: of(UNFINISHED) },
  'known bodies': { connections: 400, first: () => KNOWN_BODY },
  unread: { connections: 700, first: of(PIPELINED), reads: false },
  pipelining: { connections: 500, first: of(MANY), again: 1_000 },
  bombs: { connections: 30, first: of(BOMBS), endsWithAnswer: true, again: 1_000 },
  crowd: { connections: 600, first: () => TRACK, endsWithAnswer: true, again: 2_000 },
  'known keys': { connections: 1_500, first: () => TRACK, more: { bytes: TRACK, every: 20_000 }, descriptors: 1_024 },
  'endless heads': { endpoint: endless(false) },
  'endless trailers': { endpoint: endless(true) },
};
