import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import { type Secret, signingKey } from '../signature.ts';
import { type StandardClaim, standardBase64 } from './headers.ts';

/**
 * Headers of Standard Webhooks, which sign the id, the time of the attempt and the bytes with HMAC-SHA256. See
 * https://www.standardwebhooks.com.
 */
export interface StandardHeaders {
  'webhook-id': string;
  /** Seconds since 1970. */
  'webhook-timestamp': string;
  /** One `v1,BASE64` for each secret, with spaces between. */
  'webhook-signature': string;
}

/**
 * The key of a secret: its UTF-8 bytes, as for `X-Signature`. After `whsec_`, the prefix used by the libraries of the
 * standard, a secret is the base64 of the key.
 *
 * @throws TypeError when the secret is empty
 */
export function standardKey(secret: Secret): KeyObject {
  const base64 = standardBase64(secret);
  if (base64 === undefined) return signingKey(secret);
  const bytes = Buffer.from(base64, 'base64');
  if (bytes.length === 0) throw new TypeError('a shared secret must not be empty');
  return createSecretKey(bytes);
}

function mac(id: string, timestamp: string, body: string | Uint8Array, key: KeyObject): Buffer {
  return createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest();
}

/**
 * The headers of one attempt.
 *
 * @param at - milliseconds since 1970
 */
export function signStandard(
  body: string | Uint8Array,
  secrets: Secret | readonly Secret[],
  { id, at }: { id: string; at: number },
): StandardHeaders {
  const list = Array.isArray(secrets) ? (secrets as readonly Secret[]) : [secrets as Secret];
  const timestamp = String(Math.floor(at / 1000));
  const signatures = list.map((secret) => `v1,${mac(id, timestamp, body, standardKey(secret)).toString('base64')}`);
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures.join(' ') };
}

/**
 * Compares the signatures with the bytes as received, in constant time. Each can match one secret.
 *
 * @returns the indexes of the secrets that match
 */
export function verifyStandard(
  body: string | Uint8Array,
  { id, timestamp, signatures }: StandardClaim,
  secrets: readonly Secret[],
): readonly number[] {
  const claimed = signatures.map((signature) => Buffer.from(signature, 'base64'));
  const matched: number[] = [];
  for (const [secret, candidate] of secrets.entries()) {
    if (matched.length === claimed.length) break;
    const expected = mac(id, timestamp, body, standardKey(candidate));
    if (claimed.some((each) => timingSafeEqual(each, expected))) matched.push(secret);
  }
  return matched;
}
