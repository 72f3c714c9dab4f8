import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate, inflateRaw, type ZlibOptions } from 'node:zlib';
import { RollcallError } from '../errors.ts';
import type { Gate } from './gate.ts';
import type { Hold } from './pressure.ts';

/** What a chunk costs beside its bytes: else a body in chunks of one byte would hold hundreds of times what it is charged. */
const CHUNK_COST = 256;

/**
 * All bytes of a request, charged as they arrive.
 *
 * @throws RollcallError `too_large`, `overloaded`, `request_timeout`
 */
export function readBytes(payload: Readable, hold: Hold, maxBytes: number): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const chunks: Buffer[] = [];
  let length = 0;
  const done = (settle: () => void) => {
    hold.whenEvicted(() => {});
    payload.off('data', onData).off('end', onEnd).off('error', onError);
    settle();
  };
  const onError = (error: Error) => done(() => reject(error));
  const onEnd = () => done(() => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, length)));
  const onData = (chunk: Buffer) => {
    length += chunk.length;
    chunks.push(chunk);
    if (length > maxBytes) return onError(tooLarge(maxBytes));
    try {
      hold.resize(length + chunks.length * CHUNK_COST);
    } catch (error) {
      onError(error as Error);
    }
  };
  hold.whenEvicted(onError);
  payload.on('data', onData).on('end', onEnd).on('error', onError);
  return promise;
}

type Inflate = (body: Buffer, options: ZlibOptions) => Promise<Buffer>;

const INFLATERS: ReadonlyMap<string, Inflate> = new Map<string, Inflate>([
  ['gzip', promisify(gunzip)],
  ['x-gzip', promisify(gunzip)],
  ['deflate', promisify(inflate)],
  ['br', promisify(brotliDecompress)],
]);
const RAW_DEFLATE: Inflate = promisify(inflateRaw);

/**
 * The body without its encoding. Stops inflating once `maxBytes` are exceeded.
 *
 * @param gate - bounds how many are inflated at a time: until one is done, nobody is charged for it
 * @throws RollcallError `unsupported_media_type`, `too_large`, `invalid_json`
 */
export async function inflated(body: Buffer, encoding: string, maxBytes: number, gate: Gate): Promise<Buffer> {
  const name = encoding.trim().toLowerCase();
  if (name === '' || name === 'identity') return body;
  const inflater = name === 'deflate' && !hasZlibHeader(body) ? RAW_DEFLATE : INFLATERS.get(name);
  if (inflater === undefined) {
    throw new RollcallError('unsupported_media_type', 'content-encoding must be gzip, deflate, br or absent.');
  }
  try {
    return await gate.pass(() => inflater(body, { maxOutputLength: maxBytes }));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(maxBytes);
    throw new RollcallError('invalid_json', `The body is not valid ${name}.`);
  }
}

/** Some clients send `deflate` without it, as some browsers once took it. */
function hasZlibHeader([first = 0, second = 0]: Buffer): boolean {
  return (first & 0x0f) === 8 && ((first << 8) | second) % 31 === 0;
}

export function tooLarge(maxBytes: number): RollcallError {
  return new RollcallError('too_large', `The body must not be larger than ${maxBytes} bytes.`);
}
