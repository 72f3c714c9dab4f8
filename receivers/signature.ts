import { createHmac, createSecretKey, KeyObject, timingSafeEqual } from 'node:crypto';
import { headerFault, type Verification } from './headers.ts';
import { hmacSha1 } from './hmac.ts';

export { headerFault, type SignatureFault, type Verification } from './headers.ts';

/** A shared secret, as text or prepared with {@link signingKey}, which is faster. */
export type Secret = string | KeyObject;

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

/**
 * Compares `X-Signature` with the bytes as they were received, in constant time.
 *
 * @param secrets - one secret, or several while they are rotated; all are tried in their order.
 */
export function verify(
  body: string | Uint8Array,
  header: string | readonly string[] | undefined,
  secrets: Secret | readonly Secret[],
): Verification {
  // What was sent several times is no signature.
  const given = typeof header === 'object' ? header.join(', ') : header;
  const reason = headerFault(given);
  if (reason !== undefined) return { ok: false, reason };
  const claimed = Buffer.from(given as string);
  const list = typeof secrets === 'string' || secrets instanceof KeyObject ? [secrets] : secrets;
  const secret = list.findIndex((candidate) => timingSafeEqual(Buffer.from(sign(body, candidate)), claimed));
  return secret === -1 ? { ok: false, reason: 'signature_mismatch' } : { ok: true, secret };
}
