/** Why a request was not verified by `X-Signature`. */
export type SignatureFault = 'signature_missing' | 'signature_malformed' | 'signature_mismatch';

/** Why a request was not verified by its `webhook-…` headers. */
export type StandardFault =
  | 'webhook_headers_missing'
  | 'webhook_headers_malformed'
  | 'webhook_signature_mismatch'
  | 'webhook_too_old';

/** `secret` is the index of the secret that matched. */
export type Verification = { ok: true; secret: number } | { ok: false; reason: SignatureFault };

/** `secrets` are the indexes of the secrets that matched, one at least; `at` is in milliseconds since 1970. */
export type StandardVerification =
  | { ok: true; secrets: [number, ...number[]]; id: string; at: number }
  | { ok: false; reason: Exclude<StandardFault, 'webhook_too_old'> };

const wellFormed = /^[0-9a-f]{40}$/;

/** Checks the form of `X-Signature`, before any byte of the body is read. */
export function headerFault(header: string | undefined): SignatureFault | undefined {
  if (header === undefined || header === '') return 'signature_missing';
  return wellFormed.test(header) ? undefined : 'signature_malformed';
}

/** The most signatures that are compared. */
const SIGNATURES_LIMIT = 8;
const idForm = /^[\x21-\x7e]{1,255}$/;
const timestampForm = /^\d{1,12}$/;
const signatureForm = /^v1,[A-Za-z0-9+/]{43}=$/;

/** The unchecked headers of Standard Webhooks. */
export interface GivenHeaders {
  readonly id: string | undefined;
  readonly timestamp: string | undefined;
  readonly signature: string | undefined;
}

/** @param header - takes lowercase names */
export function standardHeaders(header: (name: string) => string | undefined): GivenHeaders {
  return {
    id: header('webhook-id'),
    timestamp: header('webhook-timestamp'),
    signature: header('webhook-signature'),
  };
}

/** The claim to verify, once the headers are well formed. */
export interface StandardClaim {
  readonly id: string;
  readonly timestamp: string;
  /** In base64, without signatures of versions that we do not know: they are for other receivers. */
  readonly signatures: readonly string[];
}

type HeaderFault = 'webhook_headers_missing' | 'webhook_headers_malformed';

/** Checks the form of the headers, before any byte of the body is read. */
export function standardClaim({ id, timestamp, signature }: GivenHeaders): StandardClaim | HeaderFault {
  if (!id || !timestamp || !signature) return 'webhook_headers_missing';
  const signatures = signature.split(' ', SIGNATURES_LIMIT).filter((part) => signatureForm.test(part));
  const isWellFormed = idForm.test(id) && timestampForm.test(timestamp) && signatures.length > 0;
  if (!isWellFormed) return 'webhook_headers_malformed';
  return { id, timestamp, signatures: signatures.map((part) => part.slice('v1,'.length)) };
}

export function standardResult({ id, timestamp }: StandardClaim, matched: readonly number[]): StandardVerification {
  const [first, ...others] = matched;
  if (first === undefined) return { ok: false, reason: 'webhook_signature_mismatch' };
  return { ok: true, secrets: [first, ...others], id, at: Number(timestamp) * 1000 };
}

const PREFIX = 'whsec_';

/** The base64 of the key, if the secret is written the way the standard's libraries do. */
export function standardBase64(secret: unknown): string | undefined {
  return typeof secret === 'string' && secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : undefined;
}
