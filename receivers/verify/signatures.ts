import type { Awaitable } from '../core/after.ts';
import type { Secret } from '../signature.ts';
import type { StandardClaim } from './headers.ts';

/** Secrets prepared for many requests. */
export interface Prepared {
  /** The index of the secret that fits a well-formed `X-Signature`, or -1. */
  verify(body: Uint8Array, header: string): Awaitable<number>;
  /** The indexes of the secrets that match. */
  verifyStandard(body: Uint8Array, claim: StandardClaim): Awaitable<readonly number[]>;
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
