import type { Outcome } from '../store/port.ts';

/** An attempt's class (docs/delivery.md) and its machine-readable cause. */
interface Classified {
  readonly outcome: Exclude<Outcome, 'skipped'>;
  /** Null on success. */
  readonly error: string | null;
}

const RETRIED_STATUSES = new Set([408, 425, 429]);

export function classifyStatus(status: number): Classified {
  if (status >= 200 && status < 300) return { outcome: 'success', error: null };
  const error = `status_${status}`;
  return { outcome: status >= 500 || RETRIED_STATUSES.has(status) ? 'retry' : 'refused', error };
}

const TLS_CAUSES: ReadonlyMap<string, string> = new Map([
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'self_signed'],
  ['SELF_SIGNED_CERT_IN_CHAIN', 'self_signed'],
  ['CERT_HAS_EXPIRED', 'expired'],
  ['CERT_NOT_YET_VALID', 'not_yet_valid'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'wrong_host'],
  ['UNABLE_TO_GET_ISSUER_CERT', 'unknown_ca'],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'unknown_ca'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'unknown_ca'],
  ['CERT_UNTRUSTED', 'unknown_ca'],
  ['CERT_CHAIN_TOO_LONG', 'invalid_chain'],
  ['INVALID_CA', 'invalid_chain'],
  ['INVALID_PURPOSE', 'invalid_chain'],
  ['PATH_LENGTH_EXCEEDED', 'invalid_chain'],
  ['CERT_SIGNATURE_FAILURE', 'invalid_chain'],
  ['CERT_REJECTED', 'rejected'],
  ['CERT_REVOKED', 'revoked'],
  ['HOSTNAME_MISMATCH', 'wrong_host'],
]);

const WEAK_CERTIFICATE = /^ERR_SSL_(EE|CA)_(KEY|MD)_TOO_(SMALL|WEAK)$/;

/** This machine has no file descriptor, port, buffer or memory left. */
const SHORTAGE = /^(?:proxy_)?(?:EMFILE|ENFILE|ENOBUFS|ENOMEM|EAGAIN|EADDRNOTAVAIL)$/;

/** True for a failure of this machine, which says nothing about the endpoint. */
export function isShortage({
  status,
  error,
}: {
  readonly status: number | null;
  readonly error: string | null;
}): boolean {
  return status === null && error !== null && SHORTAGE.test(error);
}

/** Raised instead of connecting to an address that `network` does not allow. */
export const ADDRESS_REFUSED = 'ADDRESS_REFUSED';
export const TIMEOUT = 'TIMEOUT';

export function classifyError(failure: unknown): Classified {
  const code = errorCode(failure);
  if (code === ADDRESS_REFUSED) return { outcome: 'address_refused', error: 'address_refused' };
  if (code === TIMEOUT || code === 'UND_ERR_CONNECT_TIMEOUT') return { outcome: 'retry', error: 'timeout' };
  if (isNoHttp(failure, code)) return { outcome: 'retry', error: 'invalid_http' };
  const tls = TLS_CAUSES.get(code);
  if (tls) return { outcome: 'tls_untrusted', error: tls };
  if (WEAK_CERTIFICATE.test(code)) return { outcome: 'tls_untrusted', error: 'weak_certificate' };
  return { outcome: 'retry', error: code };
}

/** undici's parser sets no code, and asserts what it assumes of a status. */
function isNoHttp(failure: unknown, code: string): boolean {
  return code === 'ERR_ASSERTION' || (failure instanceof Error && failure.name === 'HTTPParserError');
}

/** Depth to which causes are searched for a code: an error may be its own cause. */
const CAUSES_LIMIT = 8;

/** If several addresses fail, one error lists them all; the first one has the cause. */
function errorCode(failure: unknown): string {
  let error = failure;
  for (let depth = 0; depth < CAUSES_LIMIT && typeof error === 'object' && error !== null; depth += 1) {
    const { code, errors, cause } = error as { code?: unknown; errors?: unknown; cause?: unknown };
    if (typeof code === 'string' && code !== '') return code;
    error = (Array.isArray(errors) ? errors[0] : undefined) ?? cause;
  }
  return 'connection_failed';
}
