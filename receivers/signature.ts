import { createHmac, createSecretKey, hash, KeyObject, timingSafeEqual } from 'node:crypto';
import { headerFault, type Verification } from './verify/headers.ts';

export { headerFault, type SignatureFault, type Verification } from './verify/headers.ts';

/** A shared secret, as text or prepared with {@link signingKey}, which is faster. */
export type Secret = string | KeyObject;

/**
 * Prepares a shared secret for many uses.
 *
 * @throws TypeError when the secret is empty: it would verify what anyone can sign.
 */
export function signingKey(secret: Secret): KeyObject {
  const key = typeof secret === 'string' ? createSecretKey(secret, 'utf8') : secret;
  if (!(key instanceof KeyObject)) throw new TypeError(`a shared secret is text or a KeyObject, not ${typeof secret}`);
  if (!key.symmetricKeySize) throw new TypeError('a shared secret must not be empty');
  return key;
}

/** Value of `X-Signature`: lowercase hexadecimal HMAC-SHA1 of the body's UTF-8 bytes. */
export function sign(body: string | Uint8Array, secret: Secret): string {
  if (secret instanceof KeyObject && typeof body !== 'string') return hmacSha1(secret, body);
  return createHmac('sha1', signingKey(secret)).update(body).digest('hex');
}

/**
 * Compares `X-Signature` with the bytes as received, in constant time.
 *
 * @param secrets - one secret, or several while they are rotated; all are tried in their order.
 */
export function verify(
  body: string | Uint8Array,
  header: string | readonly string[] | undefined,
  secrets: Secret | readonly Secret[],
): Verification {
  // A header that was sent several times is not a signature.
  const given = typeof header === 'object' ? header.join(', ') : header;
  const reason = headerFault(given);
  if (reason !== undefined) return { ok: false, reason };
  const list = typeof secrets === 'string' || secrets instanceof KeyObject ? [secrets] : secrets;
  const secret = matchingSecret(body, given as string, list);
  return secret === -1 ? { ok: false, reason: 'signature_mismatch' } : { ok: true, secret };
}

/** The index of the secret that fits a well-formed header, or -1. */
export function matchingSecret(body: string | Uint8Array, header: string, secrets: readonly Secret[]): number {
  return secrets.findIndex((candidate) => isSame(sign(body, candidate), header));
}

const blockBytes = 64;
const digestBytes = 20;
/** The longest body worth copying. */
const mostBytes = 64 * 1024;

// Each is filled and used synchronously, so one is enough.
const innerInput = Buffer.alloc(blockBytes + mostBytes);
const outerInput = Buffer.alloc(blockBytes + digestBytes);
const expectedDigits = Buffer.alloc(2 * digestBytes);
const givenDigits = Buffer.alloc(2 * digestBytes);

/** Compares in constant time. */
function isSame(expected: string, given: string): boolean {
  // A shorter one would leave digits of the previous one in the buffer.
  if (given.length !== givenDigits.length) return false;
  expectedDigits.write(expected, 'latin1');
  givenDigits.write(given, 'latin1');
  return timingSafeEqual(expectedDigits, givenDigits);
}

/** Key blocks of HMAC, already combined with the constants of its inner and outer hash. */
interface Blocks {
  readonly inner: Uint8Array;
  readonly outer: Uint8Array;
}

const blocksOf = new WeakMap<KeyObject, Blocks>();

function makeBlocks(key: KeyObject): Blocks {
  const secret = key.export();
  if (secret.length === 0) throw new TypeError('a shared secret must not be empty');
  const block = Buffer.alloc(blockBytes);
  block.set(secret.length > blockBytes ? hash('sha1', secret, 'buffer') : secret);
  const blocks = { inner: block.map((byte) => byte ^ 0x36), outer: block.map((byte) => byte ^ 0x5c) };
  blocksOf.set(key, blocks);
  return blocks;
}

/**
 * HMAC-SHA1 in lowercase hexadecimal, built from two one-shot hashes as RFC 2104 defines it. `createHmac`
 * makes an object with native memory for each call, and freeing it costs a busy receiver more than hashing 1 KB.
 */
function hmacSha1(key: KeyObject, body: Uint8Array): string {
  const { inner, outer } = blocksOf.get(key) ?? makeBlocks(key);
  if (body.length > mostBytes) return createHmac('sha1', key).update(body).digest('hex');
  innerInput.set(inner);
  innerInput.set(body, blockBytes);
  outerInput.set(outer);
  outerInput.write(hash('sha1', innerInput.subarray(0, blockBytes + body.length)), blockBytes, 'hex');
  return hash('sha1', outerInput);
}
