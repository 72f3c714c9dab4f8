import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import * as fc from 'fast-check';

/** A hostile endpoint's behaviour on one connection. */
export interface Answer {
  /** When it begins to write: as soon as it is connected to, or once a request came. */
  readonly on: 'connect' | 'request';
  /** The bytes, a write for each part, some of them a byte at a time. */
  readonly parts: readonly Buffer[];
  readonly end: 'fin' | 'reset' | 'open';
  /** The status that has to be seen, where the answer leaves no doubt. */
  readonly status: number | null;
}

const NAMES = ['__proto__', 'constructor', 'toString', 'valueOf', 'hasOwnProperty', 'prototype', '__defineGetter__'];
const TEXT = Buffer.from('{"error":"out of order \u0000 \ud83d\ude00 end"}');
const ZEROS = Buffer.alloc(8_000_000);
const BOMB = gzipSync(ZEROS);
const BODIES: readonly Buffer[] = [
  ...[
    Buffer.alloc(0),
    TEXT,
    Buffer.alloc(500),
    Buffer.from([0xed, 0xa0, 0x80, 0xff, 0xfe, 0x00]),
    Buffer.alloc(200_000, 'x'),
  ],
  ...[gzipSync(TEXT), gzipSync(TEXT).subarray(0, 15), BOMB, gzipSync(BOMB), deflateSync(TEXT), deflateRawSync(TEXT)],
  ...[brotliCompressSync(TEXT), brotliCompressSync(ZEROS), brotliCompressSync(TEXT).subarray(0, 9)],
  ...[zstdCompressSync(TEXT), zstdCompressSync(ZEROS), zstdCompressSync(TEXT).subarray(0, 7)],
];

const digits = fc.integer({ min: 200, max: 599 }).map(String);
const status = fc.oneof(
  { weight: 5, arbitrary: digits },
  { weight: 2, arbitrary: fc.constantFrom('200', '400', '410', '429', '500', '503', '204', '304') },
  { weight: 1, arbitrary: fc.integer({ min: 100, max: 199 }).map(String) },
  { weight: 2, arbitrary: fc.constantFrom('000', '099', '99', '600', '999', '1000', '-1', '2 0', '', '20x', '٢٠٠') },
);
const version = fc.oneof(
  { weight: 8, arbitrary: fc.constant('HTTP/1.1') },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      'HTTP/1.0',
      'HTTP/2.0',
      'HTTP/0.9',
      'HTTP/1.10',
      'http/1.1',
      'HTTP/1',
      'RTSP/1.0',
      'ICY',
    ),
  },
);
const reason = fc.constantFrom(' OK', '', ' ', ' \u00e9\u0000', ' '.repeat(5_000), ' x\r', ' \tNo\tway');

const coding = fc.constantFrom(
  'gzip',
  'x-gzip',
  'deflate',
  'br',
  'zstd',
  'identity',
  'compress',
  'GZIP',
  '*',
  '',
  ...NAMES,
);
const day = 'Sun, 06 Nov';
const retryAfter = fc.oneof(
  fc.constantFrom(
    '-1',
    '0',
    '1',
    '120',
    '99999999999',
    '9'.repeat(400),
    'NaN',
    'Infinity',
    '1e3',
    '0x10',
    '1.5',
    'soon',
    '',
  ),
  fc.constantFrom(
    `${day} 1970 08:49:37 GMT`,
    `${day} 9999 08:49:37 GMT`,
    `${day} 99999 08:49:37 GMT`,
    'Sunday, 06-Nov-94 08:49:37 GMT',
  ),
  fc.constantFrom(
    'Sun Nov  6 08:49:37 1994',
    `${day} 2026`,
    'Thu, 01 Jan 1970 00:00:00 GMT',
    '\u0000',
    NAMES[0] as string,
  ),
);
const header = fc.oneof(
  fc.array(coding, { minLength: 1, maxLength: 4 }).map((codings) => `Content-Encoding: ${codings.join(', ')}`),
  retryAfter.map((value) => `Retry-After: ${value}`),
  fc.tuple(fc.constantFrom(...NAMES), fc.constantFrom('x', '', '1', '[object Object]')).map((pair) => pair.join(': ')),
  fc.constantFrom(
    'Connection: close',
    'Connection: upgrade\r\nUpgrade: h2c',
    'Connection: keep-alive',
    'Keep-Alive: timeout=0',
  ),
  fc.constantFrom('Keep-Alive: timeout=-1', 'Keep-Alive: timeout=99999999999', 'Trailer: x', 'Location: javascript:1'),
  fc.constantFrom(
    'X-Folded: a\r\n b\r\n\tc',
    'X-Space : a',
    ': empty',
    'no colon',
    'X\u0000: nul',
    'X-Nul: \u0000',
    'X-High: \u00ff\u00fe',
  ),
  fc.constantFrom(
    `X-Long: ${'y'.repeat(15_000)}`,
    `X-Longer: ${'y'.repeat(20_000)}`,
    'X-Bare: a\nX-B: b',
    'Set-Cookie: a=1\r\nSet-Cookie: b=2',
  ),
);
/** Headers that nobody can take offence at. */
const harmless = fc.oneof(
  fc.array(coding, { minLength: 1, maxLength: 4 }).map((codings) => `Content-Encoding: ${codings.join(',')}`),
  fc.tuple(fc.constantFrom(...NAMES), fc.constantFrom('x', '1')).map((pair) => pair.join(': ')),
  fc.constantFrom('Retry-After: -1', 'Retry-After: NaN', 'X-Long: yyyy', 'Set-Cookie: a=1\r\nSet-Cookie: b=2'),
);
const interim = fc.constantFrom(
  'HTTP/1.1 100 Continue\r\n\r\n',
  'HTTP/1.1 102 Processing\r\n\r\n',
  'HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n',
  'HTTP/1.1 199 Odd\r\n__proto__: x\r\n\r\n',
);
type Framing = (body: Buffer) => { readonly headers: readonly string[]; readonly bytes: Buffer };

const chunked = (body: Buffer) =>
  Buffer.concat([Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from('\r\n0\r\n\r\n')]);
const length =
  (change: number): Framing =>
  (body) => ({
    headers: [`Content-Length: ${body.length + change}`],
    bytes: body,
  });
const framing = fc.constantFrom<Framing>(
  ...[length(0), length(0), length(0), length(1), length(-1), length(1_000_000)],
  (body) => ({ headers: [], bytes: body }),
  (body) => ({ headers: ['Content-Length: 1', `Content-Length: ${body.length}`], bytes: body }),
  (body) => ({ headers: ['Content-Length: 18446744073709551617'], bytes: body }),
  (body) => ({ headers: ['Transfer-Encoding: chunked'], bytes: chunked(body) }),
  (body) => ({ headers: ['Transfer-Encoding: chunked'], bytes: body }),
  (body) => ({ headers: ['Transfer-Encoding: gzip, chunked', 'Content-Length: 3'], bytes: chunked(body) }),
  (body) => ({ headers: ['Transfer-Encoding: __proto__'], bytes: body }),
  (body) => ({ headers: ['Transfer-Encoding: chunked'], bytes: Buffer.from(`ffffffffffffffff\r\n${body.length}`) }),
);

/** Where the bytes are divided into writes, and how many are written one at a time. */
const dividing = fc.record({
  cuts: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 4 }),
  drip: fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(120) }),
});

function divided(bytes: Buffer, { cuts, drip }: { readonly cuts: readonly number[]; readonly drip: number }): Buffer[] {
  const single = Array.from({ length: Math.min(drip, bytes.length) }, (_, at) => at);
  const places = [...single, ...cuts.map((cut) => Math.floor(cut * bytes.length)), bytes.length];
  const at = [...new Set([0, ...places])].sort((a, b) => a - b);
  return at.slice(1).map((end, index) => bytes.subarray(at[index], end));
}

const body = fc.constantFrom(...BODIES);
const end = fc.constantFrom<Answer['end']>('fin', 'fin', 'reset', 'open');

/** An answer as RFC 9112 has it, with headers that say strange things: its status counts. */
const proper = fc
  .record({
    interims: fc.array(interim, { maxLength: 3 }),
    digits,
    headers: fc.array(harmless, { maxLength: 5 }),
    body,
    dividing,
  })
  .map(({ interims, digits, headers, body, dividing }): Answer => {
    const isBare = digits === '204' || digits === '304';
    const content = isBare ? Buffer.alloc(0) : body;
    const lines = [`HTTP/1.1 ${digits} Fine`, ...headers, ...(isBare ? [] : [`Content-Length: ${content.length}`])];
    const bytes = Buffer.concat([Buffer.from(`${interims.join('')}${lines.join('\r\n')}\r\n\r\n`, 'latin1'), content]);
    return { on: 'request', parts: divided(bytes, dividing), end: 'open', status: Number(digits) };
  });

const broken = fc
  .record({
    on: fc.constantFrom<Answer['on']>('request', 'request', 'request', 'request', 'connect'),
    line: fc.tuple(version, status, reason).map(([protocol, code, text]) => `${protocol} ${code}${text}`),
    interims: fc.array(interim, { maxLength: 2 }),
    headers: fc.array(header, { maxLength: 8 }),
    body,
    framing,
    /** How much of it is written. */
    share: fc.oneof(
      { weight: 3, arbitrary: fc.constant(1) },
      { weight: 1, arbitrary: fc.double({ min: 0, max: 1, noNaN: true }) },
    ),
    after: fc.constantFrom('', '', '', 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n', '\u0000\u0000', '\r\n'),
    dividing,
    end,
  })
  .map(({ on, line, interims, headers, body, framing, share, after, dividing, end }): Answer => {
    const { headers: framed, bytes } = framing(body);
    const head = Buffer.from(`${interims.join('')}${[line, ...headers, ...framed].join('\r\n')}\r\n\r\n`, 'latin1');
    const all = Buffer.concat([head, bytes, Buffer.from(after)]);
    return { on, parts: divided(all.subarray(0, Math.ceil(all.length * share)), dividing), end, status: null };
  });

const noise = fc
  .record({
    bytes: fc.uint8Array({ maxLength: 200 }),
    dividing,
    end,
    on: fc.constantFrom<Answer['on']>('request', 'connect'),
  })
  .map(
    ({ bytes, dividing, end, on }): Answer => ({ on, parts: divided(Buffer.from(bytes), dividing), end, status: null }),
  );

export const answer: fc.Arbitrary<Answer> = fc.oneof(
  { weight: 5, arbitrary: proper },
  { weight: 10, arbitrary: broken },
  { weight: 1, arbitrary: noise },
);
