/** Why a request was not verified by `X-Signature`. */
export type SignatureFault = 'signature_missing' | 'signature_malformed' | 'signature_mismatch';

type HeaderFault = 'webhook_headers_missing' | 'webhook_headers_malformed';

/** Why a request was not verified by its `webhook-…` headers. */
export type StandardFault = HeaderFault | 'webhook_signature_mismatch' | 'webhook_too_old';

/** `secret` is the index of the secret that matched. */
export type Verification = { ok: true; secret: number } | { ok: false; reason: SignatureFault };

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

/** The claim of the headers of Standard Webhooks, to be verified. */
export interface StandardClaim {
  readonly id: string;
  /** Seconds since 1970. */
  readonly timestamp: string;
  /** In base64, without signatures of versions that we do not know: they are for other receivers. */
  readonly signatures: readonly string[];
}

/**
 * Checks the form of the headers, before any byte of the body is read.
 *
 * @param header - takes lowercase names
 */
export function standardClaim(header: (name: string) => string | undefined): StandardClaim | HeaderFault {
  const [id, timestamp, signature] = [header('webhook-id'), header('webhook-timestamp'), header('webhook-signature')];
  if (!id || !timestamp || !signature) return 'webhook_headers_missing';
  const signatures = signature.split(' ', SIGNATURES_LIMIT).filter((part) => signatureForm.test(part));
  const isWellFormed = idForm.test(id) && timestampForm.test(timestamp) && signatures.length > 0;
  if (!isWellFormed) return 'webhook_headers_malformed';
  return { id, timestamp, signatures: signatures.map((part) => part.slice('v1,'.length)) };
}

const PREFIX = 'whsec_';

/** The base64 of the key, if the secret is written the way the standard's libraries do. */
export function standardBase64(secret: unknown): string | undefined {
  return typeof secret === 'string' && secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : undefined;
}
