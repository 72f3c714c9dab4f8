import type { Readable, Writable } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib';

/** Limit of response bytes read, before and after decoding. */
export const RESPONSE_LIMIT = 64 * 1024;
/** Limit of codings undone for one body: each may inflate the output of the one before. */
const CODINGS_LIMIT = 3;

type Decoder = Readable & Writable;

/** A map, because the endpoint chooses the name: an object has a `constructor` too. */
const DECODERS: ReadonlyMap<string, () => Decoder> = new Map<string, () => Decoder>([
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
  ['zstd', createZstdDecompress],
]);

/**
 * The start of a response, as text that every store accepts. Never rejects: undecodable text is shown as far as it
 * could be read, and an unknown coding as it arrived.
 */
export async function responseText(raw: Buffer, encoding: string | undefined): Promise<string> {
  const { bytes } = await decoded(raw.subarray(0, RESPONSE_LIMIT), codingsOf(encoding));
  // Not every database accepts a NUL in text.
  return bytes.toString('utf8').replaceAll('\0', '\ufffd');
}

/** A whole answer as text; null if it can't be decoded or is too large. Never rejects. */
export async function wholeText(raw: Buffer, encoding: string | undefined): Promise<string | null> {
  const { bytes, isWhole } = await decoded(raw, codingsOf(encoding));
  return isWhole ? bytes.toString('utf8') : null;
}

interface Decoded {
  readonly bytes: Buffer;
  /** True if this is the whole body, decoded. */
  readonly isWhole: boolean;
}

async function decoded(raw: Buffer, codings: readonly string[]): Promise<Decoded> {
  if (codings.length > CODINGS_LIMIT) return { bytes: raw, isWhole: false };
  let bytes = raw;
  for (const coding of codings.toReversed()) {
    const decoder = DECODERS.get(coding);
    if (!decoder) return { bytes, isWhole: false };
    const inflated = await inflate(bytes, decoder());
    if (!inflated.isWhole) return inflated;
    bytes = inflated.bytes;
  }
  return { bytes, isWhole: true };
}

function codingsOf(encoding = ''): string[] {
  return encoding
    .toLowerCase()
    .split(',')
    .map((coding) => coding.trim())
    .filter((coding) => coding !== '' && coding !== 'identity');
}

async function inflate(bytes: Buffer, decoder: Decoder): Promise<Decoded> {
  const chunks: Buffer[] = [];
  let size = 0;
  let isWhole = true;
  try {
    decoder.end(bytes);
    for await (const chunk of decoder) {
      chunks.push(chunk);
      size += chunk.length;
      if (size > RESPONSE_LIMIT) break;
    }
  } catch {
    // A truncated or mislabelled body is shown as far as it could be read.
    isWhole = false;
  }
  return { bytes: Buffer.concat(chunks).subarray(0, RESPONSE_LIMIT), isWhole: isWhole && size <= RESPONSE_LIMIT };
}

/** The note of an attempt that succeeded although nothing handled its message. */
export const UNHANDLED = 'unhandled';

/** The note in the answer to a single message. */
export function noteOf(answer: Buffer): string | null {
  try {
    return (JSON.parse(answer.toString()) as { unhandled?: unknown } | null)?.unhandled === true ? UNHANDLED : null;
  } catch {
    return null;
  }
}
