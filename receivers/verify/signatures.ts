import type { Awaitable } from '../core/after.ts';
import type { Secret } from '../signature.ts';
import type { GivenHeaders, StandardVerification, Verification } from './headers.ts';

/** Secrets prepared for many requests. */
export interface Prepared {
  /** @param header - well formed */
  verify(body: Uint8Array, header: string): Awaitable<Verification>;
  verifyStandard(body: Uint8Array, headers: GivenHeaders): Awaitable<StandardVerification>;
  /** `X-Signature` of a body with the secret at this index. */
  sign(body: Uint8Array, secret: number): Awaitable<string>;
  /** Derives a name from the secret at this index that does not reveal it. */
  sender(secret: number): Awaitable<string>;
}

/** The cryptography of a runtime. */
export interface Signatures {
  /** @throws TypeError when a secret is empty */
  prepare(secrets: readonly Secret[]): Prepared;
  /** The usual mistake that explains why a signature does not fit, if one does. Not every runtime checks. */
  mistake?(body: Uint8Array | undefined, header: string | undefined, secrets: readonly Secret[]): string | undefined;
}

/** The text that is signed to name a sender. */
export const SENDER = 'rollcall sender';
/** Hexadecimal digits of a sender's name. */
export const SENDER_LENGTH = 16;
