import { createHmac, createSecretKey, KeyObject, timingSafeEqual } from 'node:crypto';
import { hmacSha1 } from './hmac.ts';

/** A shared secret, as text or prepared with {@link signingKey}, which is faster. */
export type Secret = string | KeyObject;

/** Why a request was not verified. */
export type SignatureFault = 'signature_missing' | 'signature_malformed' | 'signature_mismatch';

/** `secret` is the place in the list of the one that matched. */
export type Verification = { ok: true; secret: number } | { ok: false; reason: SignatureFault };

/**
 * Prepares a shared secret for many uses.
 *
 * @throws TypeError when the secret is empty: it would verify what anyone can sign.
 */
export function signingKey(secret: Secret): KeyObject {
  const key = typeof secret === 'string' ? createSecretKey(secret, 'utf8') : secret;
  if (!(key instanceof KeyObject && key.symmetricKeySize)) throw new TypeError('a shared secret must not be empty');
  return key;
}

/** Value of `X-Signature`: lowercase hexadecimal HMAC-SHA1 of the body's UTF-8 bytes. */
export function sign(body: string | Uint8Array, secret: Secret): string {
  if (secret instanceof KeyObject && typeof body !== 'string') return hmacSha1(secret, body);
  return createHmac('sha1', signingKey(secret)).update(body).digest('hex');
}

const wellFormed = /^[0-9a-f]{40}$/;

/** What is wrong with the header alone, before any byte of the body is looked at. */
export function headerFault(header: string | undefined): SignatureFault | undefined {
  if (header === undefined || header === '') return 'signature_missing';
  return wellFormed.test(header) ? undefined : 'signature_malformed';
}

/**
 * Compares `X-Signature` with the bytes as they were received, in constant time.
 *
 * @param secrets - one secret, or several while they are rotated; all are tried in their order.
 */
export function verify(
  body: string | Uint8Array,
  header: string | undefined,
  secrets: Secret | readonly Secret[],
): Verification {
  const reason = headerFault(header);
  if (reason !== undefined) return { ok: false, reason };
  const claimed = Buffer.from(header as string);
  const list = typeof secrets === 'string' || secrets instanceof KeyObject ? [secrets] : secrets;
  const secret = list.findIndex((candidate) => timingSafeEqual(Buffer.from(sign(body, candidate)), claimed));
  return secret === -1 ? { ok: false, reason: 'signature_mismatch' } : { ok: true, secret };
}
