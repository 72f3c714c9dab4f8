import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate } from 'node:zlib';
import { RollcallError } from '../errors.ts';

const INFLATERS = {
  gzip: promisify(gunzip),
  'x-gzip': promisify(gunzip),
  deflate: promisify(inflate),
  br: promisify(brotliDecompress),
} as const;

/**
 * The JSON value of a request body. Stops inflating once `maxBytes` are exceeded.
 *
 * @throws RollcallError `unsupported_media_type`, `too_large`, `invalid_json`
 */
export async function readBody(body: Buffer, encoding: string | undefined, maxBytes: number): Promise<unknown> {
  return parseJson(encoding === undefined ? body : await inflated(body, encoding, maxBytes));
}

async function inflated(body: Buffer, encoding: string, maxBytes: number): Promise<Buffer> {
  const name = encoding.trim().toLowerCase();
  if (name === '' || name === 'identity') return body;
  if (!Object.hasOwn(INFLATERS, name)) {
    throw new RollcallError('unsupported_media_type', 'content-encoding must be gzip, deflate, br or absent.');
  }
  try {
    return await INFLATERS[name as keyof typeof INFLATERS](body, { maxOutputLength: maxBytes });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') {
      throw new RollcallError('too_large', `The body must not be larger than ${maxBytes} bytes.`);
    }
    throw new RollcallError('invalid_json', `The body is not valid ${name}.`);
  }
}

/** Bytes that are not UTF-8 become U+FFFD: one bad character must not cost its neighbours. */
function parseJson(body: Buffer): unknown {
  const text = body.toString();
  try {
    return JSON.parse(text.startsWith('\uFEFF') ? text.slice(1) : text);
  } catch {
    throw new RollcallError('invalid_json', 'The body must be JSON.');
  }
}
