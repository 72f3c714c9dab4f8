import { promisify } from 'node:util';
import {
  brotliDecompress,
  brotliDecompressSync,
  crc32,
  gunzip,
  gunzipSync,
  type InflateRaw,
  inflate,
  inflateRaw,
  inflateRawSync,
  inflateSync,
  type ZlibOptions,
} from 'node:zlib';
import { tooLarge } from '../http/body.ts';
import { RollcallError } from '../kernel/errors.ts';

interface Inflater {
  /** Inflates in another thread. */
  readonly later: (body: Buffer, options: ZlibOptions) => Promise<Buffer>;
  readonly atOnce: (body: Buffer, options: ZlibOptions) => Buffer;
}

const later: Record<'br' | 'deflate' | 'gzip' | 'raw', Inflater['later']> = {
  br: promisify(brotliDecompress),
  deflate: promisify(inflate),
  gzip: promisify(gunzip),
  raw: promisify(inflateRaw),
};
const GZIP: Inflater = { later: gunzipped, atOnce: gunzipSync };
const INFLATERS: ReadonlyMap<string, Inflater> = new Map<string, Inflater>([
  ['gzip', GZIP],
  ['x-gzip', GZIP],
  ['deflate', { later: later.deflate, atOnce: inflateSync }],
  ['br', { later: later.br, atOnce: brotliDecompressSync }],
]);
const RAW_DEFLATE: Inflater = { later: later.raw, atOnce: inflateRawSync };

/** Bytes to inflate at a time in another thread: each piece is a round trip. */
const PIECE = 64 * 1024;

/** Inflates a body in this thread; null if it is larger than `maxOutputLength` or invalid. */
export function inflatedAtOnce(body: Buffer, encoding: string, maxOutputLength: number): Buffer | null {
  try {
    return withoutSpare(inflaterOf(body, nameOf(encoding))?.atOnce(body, { maxOutputLength }) ?? null);
  } catch {
    return null;
  }
}

/**
 * Inflates a body in another thread. Stops once `maxBytes` are exceeded.
 *
 * @throws RollcallError `unsupported_media_type`, `too_large`, `invalid_json`
 */
export async function inflated(body: Buffer, encoding: string, maxBytes: number): Promise<Buffer> {
  const name = nameOf(encoding);
  if (name === '' || name === 'identity') return body;
  const inflater = inflaterOf(body, name);
  if (inflater === undefined) {
    throw new RollcallError('unsupported_media_type', 'content-encoding must be gzip, deflate, br or absent.');
  }
  try {
    return withoutSpare(await inflater.later(body, { maxOutputLength: maxBytes, chunkSize: PIECE }));
  } catch (error) {
    if (isTooLarge(error)) throw tooLarge(maxBytes);
    throw new RollcallError('invalid_json', `The body is not valid ${name}.`);
  }
}

const GZIP_HEADER = 10;
const GZIP_TRAILER = 8;

/** Accepts other data behind the first member, such as a line break, and a wrong size if the checksum is right. */
async function gunzipped(body: Buffer, options: ZlibOptions): Promise<Buffer> {
  try {
    return await later.gzip(body, options);
  } catch (error) {
    if (isTooLarge(error) || !hasPlainHeader(body)) throw error;
    const raw = await later.raw(body.subarray(GZIP_HEADER), { ...options, info: true });
    const { buffer, engine } = raw as unknown as { readonly buffer: Buffer; readonly engine: InflateRaw };
    const end = GZIP_HEADER + engine.bytesWritten;
    if (body.length < end + GZIP_TRAILER || body.readUInt32LE(end) !== crc32(buffer)) throw error;
    return buffer;
  }
}

function isTooLarge(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
}

const nameOf = (encoding: string) => encoding.trim().toLowerCase();

function inflaterOf(body: Buffer, name: string): Inflater | undefined {
  return name === 'deflate' && !hasZlibHeader(body) ? RAW_DEFLATE : INFLATERS.get(name);
}

/** Copies a small result, which would otherwise hold its whole piece, charged to nobody. */
function withoutSpare<B extends Buffer | null>(inflated: B): B | Buffer {
  return inflated !== null && 2 * inflated.length < inflated.buffer.byteLength ? Buffer.from(inflated) : inflated;
}

/** Names and comments, which no client writes, would make the header longer. */
function hasPlainHeader([first, second, method, flags]: Buffer): boolean {
  return first === 0x1f && second === 0x8b && method === 8 && flags === 0;
}

/** Some clients send `deflate` without this header, as some browsers once accepted it. */
function hasZlibHeader([first = 0, second = 0]: Buffer): boolean {
  return (first & 0x0f) === 8 && ((first << 8) | second) % 31 === 0;
}
