import {
  type BrotliDecompress,
  brotliDecompressSync,
  crc32,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  type Gunzip,
  gunzipSync,
  type Inflate,
  type InflateRaw,
  inflateRawSync,
  inflateSync,
  type ZlibOptions,
} from 'node:zlib';
import { tooLarge } from '../http/body.ts';
import { RollcallError } from '../kernel/errors.ts';

type Decompressor = Gunzip | Inflate | InflateRaw | BrotliDecompress;

interface Inflater {
  /** Inflates in another thread. */
  readonly later: (options: ZlibOptions) => Decompressor;
  readonly atOnce: (body: Buffer, options: ZlibOptions) => Buffer;
}

const GZIP: Inflater = { later: createGunzip, atOnce: gunzipSync };
const INFLATERS: ReadonlyMap<string, Inflater> = new Map<string, Inflater>([
  ['gzip', GZIP],
  ['x-gzip', GZIP],
  ['deflate', { later: createInflate, atOnce: inflateSync }],
  ['br', { later: createBrotliDecompress, atOnce: brotliDecompressSync }],
]);
const RAW_DEFLATE: Inflater = { later: createInflateRaw, atOnce: inflateRawSync };

/** Inflates a body in this thread; null if it is larger than `maxOutputLength` or invalid. */
export function inflatedAtOnce(body: Buffer, encoding: string, maxOutputLength: number): Buffer | null {
  const name = nameOf(encoding);
  const inflater = inflaterOf(body, name);
  if (inflater === undefined || (saidSize(body, name) ?? 0) > maxOutputLength) return null;
  const chunkSize = pieceFor(body, name, LEAST_PIECE, maxOutputLength);
  try {
    return withoutSpare(inflater.atOnce(body, { maxOutputLength, chunkSize }), chunkSize);
  } catch {
    return null;
  }
}

/**
 * Inflates a body in another thread. Stops once `maxBytes` are exceeded.
 *
 * @param maxPiece - most bytes of a buffer to inflate into. A large one is faster, but an invalid body leaves it as garbage
 * @throws RollcallError `unsupported_media_type`, `too_large`, `invalid_json`
 */
export async function inflated(body: Buffer, encoding: string, maxBytes: number, maxPiece: number): Promise<Buffer> {
  const name = nameOf(encoding);
  if (name === '' || name === 'identity') return body;
  const inflater = inflaterOf(body, name);
  if (inflater === undefined) {
    throw new RollcallError('unsupported_media_type', 'content-encoding must be gzip, deflate, br or absent.');
  }
  // A body that declares too small a size, as a file of several members does, would come in hundreds of pieces.
  const chunkSize = pieceFor(body, name, USUAL_PIECE, Math.min(maxPiece, maxBytes));
  try {
    if (inflater === GZIP && hasPlainHeader(body)) return await gunzipped(body, maxBytes, chunkSize);
    return await inPieces(inflater.later({ chunkSize }), body, maxBytes, chunkSize);
  } catch (error) {
    if (error instanceof RollcallError) throw error;
    throw new RollcallError('invalid_json', `The body is not valid ${name}.`);
  }
}

/**
 * Inflates gzip members up to other data, such as a line break. Accepts a wrong size if the checksum is right.
 *
 * @throws RollcallError `too_large`; what zlib throws
 */
async function gunzipped(body: Buffer, maxBytes: number, chunkSize: number): Promise<Buffer> {
  // For a body that ends wrongly, zlib would only report an error, and what was inflated would become garbage.
  const engine = createInflateRaw({ chunkSize });
  const first = await inPieces(engine, body.subarray(GZIP_HEADER), maxBytes, chunkSize);
  const end = GZIP_HEADER + engine.bytesWritten;
  if (body.length < end + GZIP_TRAILER || body.readUInt32LE(end) !== crc32(first)) {
    giveBack(first);
    throw new Error('The checksum is wrong or missing.');
  }
  if (body[end + GZIP_TRAILER] !== GZIP_MAGIC) return first;
  try {
    return await inPieces(GZIP.later({ chunkSize }), body, maxBytes, chunkSize);
  } catch (error) {
    if (error instanceof RollcallError) throw error;
    return first;
  }
}

/** @throws RollcallError `too_large`; what zlib throws */
async function inPieces(engine: Decompressor, body: Buffer, maxBytes: number, chunkSize: number): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let length = 0;
  let whole: Buffer | null = null;
  try {
    engine.end(body);
    for await (const piece of engine as AsyncIterable<Buffer>) {
      pieces.push(piece);
      length += piece.length;
      if (length > maxBytes) throw tooLarge(maxBytes);
    }
    whole = pieces.length === 1 ? withoutSpare(pieces[0]!, chunkSize) : Buffer.concat(pieces, length);
    return whole;
  } finally {
    for (const piece of pieces) {
      // Before the end, a piece that is not full may still be written to.
      const isDone = whole !== null || piece.length === chunkSize;
      if (isDone && piece.buffer !== whole?.buffer) giveBack(piece, chunkSize);
    }
  }
}

const nameOf = (encoding: string) => encoding.trim().toLowerCase();

function inflaterOf(body: Buffer, name: string): Inflater | undefined {
  return name === 'deflate' && !hasZlibHeader(body) ? RAW_DEFLATE : INFLATERS.get(name);
}

const GZIP_MAGIC = 0x1f;
const GZIP_HEADER = 10;
const GZIP_TRAILER = 8;
const LEAST_PIECE = 1_024;
export const USUAL_PIECE = 64 * 1024;

/** The inflated size that gzip declares at its end, which may be a lie; null for other encodings. */
function saidSize(body: Buffer, name: string): number | null {
  return name.endsWith('gzip') && body.length >= GZIP_HEADER + GZIP_TRAILER ? body.readUInt32LE(body.length - 4) : null;
}

/** Bytes to inflate at a time. Each piece is a round trip to another thread, which costs ours more than the work there. */
function pieceFor(body: Buffer, name: string, least: number, maxBytes: number): number {
  const said = saidSize(body, name);
  const wanted = Math.max(least, said === null ? USUAL_PIECE : said + 1);
  return Math.max(LEAST_PIECE, Math.min(wanted, maxBytes));
}

/** Copies a small result, which would otherwise hold its whole piece, charged to nobody. */
function withoutSpare(inflated: Buffer, piece: number): Buffer {
  return 2 * inflated.length < piece ? Buffer.from(inflated) : inflated;
}

/**
 * Frees the memory of an inflated body that is no longer needed, if it is large. That of bombs would wait for a full garbage
 * collection, which a few hundred of them cause and everybody waits for.
 *
 * @param room - size of the buffer that it was inflated into
 */
export function giveBack({ buffer, length }: Buffer, room = length): void {
  const memory = buffer as ArrayBuffer;
  // Smaller buffers may share their memory.
  if (room >= Buffer.poolSize && !memory.detached) memory.transfer(0);
}

/** Names and comments, which no client writes, would make the header longer. */
function hasPlainHeader([first, second, method, flags]: Buffer): boolean {
  return first === GZIP_MAGIC && second === 0x8b && method === 8 && flags === 0;
}

/** Some clients send `deflate` without this header, as some browsers once accepted it. */
function hasZlibHeader([first = 0, second = 0]: Buffer): boolean {
  return (first & 0x0f) === 8 && ((first << 8) | second) % 31 === 0;
}
