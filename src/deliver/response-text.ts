import type { Readable, Writable } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib';

/** Bytes of a response that are read at most, before and after decoding. */
export const RESPONSE_LIMIT = 64 * 1024;
/** Codings of one body that are undone at most: each may inflate what the one before gave. */
const CODINGS_LIMIT = 3;

type Decoder = Readable & Writable;

/** A map, because an endpoint chooses the name: an object has a `constructor` too. */
const DECODERS: ReadonlyMap<string, () => Decoder> = new Map<string, () => Decoder>([
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
  ['zstd', createZstdDecompress],
]);

/**
 * The start of what an endpoint answered, as text that every store takes. It never rejects: what can't be decoded is
 * shown as far as it could be read, and what names no known coding as it came.
 */
export async function responseText(raw: Buffer, encoding: string | undefined): Promise<string> {
  try {
    return wellFormed(await decoded(raw.subarray(0, RESPONSE_LIMIT), encoding));
  } catch {
    return wellFormed(raw.subarray(0, RESPONSE_LIMIT));
  }
}

/** A whole answer as text; null where it can't be decoded or is too large. It never rejects. */
export async function wholeText(raw: Buffer, encoding: string | undefined): Promise<string | null> {
  const codings = codingsOf(encoding);
  if (codings.length === 0) return raw.toString('utf8');
  const decoder = codings.length === 1 ? DECODERS.get(codings[0] ?? '') : undefined;
  if (!decoder) return null;
  try {
    const stream = decoder();
    stream.end(raw);
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of stream) {
      chunks.push(chunk);
      size += chunk.length;
      if (size > RESPONSE_LIMIT) return null;
    }
    return Buffer.concat(chunks).toString('utf8');
  } catch {
    return null;
  }
}

async function decoded(raw: Buffer, encoding: string | undefined): Promise<Buffer> {
  const codings = codingsOf(encoding);
  if (codings.length > CODINGS_LIMIT) return raw;
  let bytes = raw;
  for (const coding of codings.reverse()) {
    const decoder = DECODERS.get(coding);
    if (!decoder) return bytes;
    bytes = await inflate(bytes, decoder());
  }
  return bytes;
}

function codingsOf(encoding = ''): string[] {
  return encoding
    .toLowerCase()
    .split(',')
    .map((coding) => coding.trim())
    .filter((coding) => coding !== '' && coding !== 'identity');
}

async function inflate(bytes: Buffer, decoder: Decoder): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    decoder.end(bytes);
    for await (const chunk of decoder) {
      chunks.push(chunk);
      size += chunk.length;
      if (size >= RESPONSE_LIMIT) break;
    }
  } catch {
    // A body that was cut off, or is not what its header says, is shown as far as it could be read.
  }
  return Buffer.concat(chunks).subarray(0, RESPONSE_LIMIT);
}

/** Not every database takes a NUL in a text. */
function wellFormed(bytes: Buffer): string {
  return bytes.toString('utf8').replaceAll('\0', '\ufffd');
}
