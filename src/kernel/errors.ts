import type { ERROR_CODES } from './error-codes.ts';

export type ErrorCode = keyof typeof ERROR_CODES;

/** An error that a person or a client can act on: a stable code and a message that says what to do. */
export class RollcallError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'RollcallError';
    this.code = code;
  }
}
