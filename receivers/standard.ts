import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import { type Secret, signingKey } from './signature.ts';

/**
 * Standard Webhooks: the id, the time of the attempt and the bytes are signed with HMAC-SHA256. See
 * https://www.standardwebhooks.com.
 */
export interface StandardHeaders {
  'webhook-id': string;
  /** Seconds since 1970. */
  'webhook-timestamp': string;
  /** One `v1,BASE64` for each secret, with spaces between. */
  'webhook-signature': string;
}

/** Why a request was not verified by its `webhook-…` headers. */
export type StandardFault =
  | 'webhook_headers_missing'
  | 'webhook_headers_malformed'
  | 'webhook_signature_mismatch'
  | 'webhook_too_old';

/** `secret` is the place in the list of the one that matched; `at` is in milliseconds since 1970. */
export type StandardVerification =
  | { ok: true; secret: number; id: string; at: number }
  | { ok: false; reason: Exclude<StandardFault, 'webhook_too_old'> };

const PREFIX = 'whsec_';
/** Signatures that are compared at most. */
const SIGNATURES_LIMIT = 8;
const idForm = /^[\x21-\x7e]{1,255}$/;
const timestampForm = /^\d{1,12}$/;

/**
 * The key of a secret: its UTF-8 bytes, as for `X-Signature`. A secret that begins with `whsec_`, as the libraries of the
 * standard write them, is the base64 of its bytes.
 */
export function standardKey(secret: Secret): KeyObject {
  if (typeof secret !== 'string' || !secret.startsWith(PREFIX)) return signingKey(secret);
  const bytes = Buffer.from(secret.slice(PREFIX.length), 'base64');
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

/** The three headers, by a look-up that takes lowercase names. */
export interface GivenHeaders {
  readonly id: string | undefined;
  readonly timestamp: string | undefined;
  readonly signature: string | undefined;
}

export function standardHeaders(header: (name: string) => string | undefined): GivenHeaders {
  return {
    id: header('webhook-id'),
    timestamp: header('webhook-timestamp'),
    signature: header('webhook-signature'),
  };
}

/** What is wrong with the headers alone, before any byte of the body is looked at. */
export function standardHeaderFault({ id, timestamp, signature }: GivenHeaders): StandardFault | undefined {
  if (!id || !timestamp || !signature) return 'webhook_headers_missing';
  const isWellFormed = idForm.test(id) && timestampForm.test(timestamp) && given(signature).length > 0;
  return isWellFormed ? undefined : 'webhook_headers_malformed';
}

/** The signatures of the version that we know; others are for other receivers. */
function given(header: string): Buffer[] {
  const parts = header.split(' ', SIGNATURES_LIMIT).filter((part) => /^v1,[A-Za-z0-9+/]{43}=$/.test(part));
  return parts.map((part) => Buffer.from(part.slice('v1,'.length), 'base64'));
}

/** Compares the signatures with the bytes as they were received, in constant time; any of them will do. */
export function verifyStandard(
  body: string | Uint8Array,
  headers: GivenHeaders,
  secrets: readonly Secret[],
): StandardVerification {
  const reason = standardHeaderFault(headers) as Exclude<StandardFault, 'webhook_too_old'> | undefined;
  if (reason !== undefined) return { ok: false, reason };
  const { id, timestamp, signature } = headers as Record<keyof GivenHeaders, string>;
  const claimed = given(signature);
  const secret = secrets.findIndex((candidate) => {
    const expected = mac(id, timestamp, body, standardKey(candidate));
    return claimed.some((each) => timingSafeEqual(each, expected));
  });
  if (secret === -1) return { ok: false, reason: 'webhook_signature_mismatch' };
  return { ok: true, secret, id, at: Number(timestamp) * 1000 };
}
