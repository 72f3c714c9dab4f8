import * as z from 'zod';
import { ERROR_CODES } from '../kernel/error-codes.ts';
import type { ErrorCode } from '../kernel/errors.ts';

const error = z.object({
  // A service of another version may know codes that this one does not.
  code: z.enum(Object.keys(ERROR_CODES) as ErrorCode[]).catch('internal_error'),
  message: z.string(),
});

/** The error that a service answered with; null if the answer is not of Rollcall's form. */
export function errorIn(answer: string): { readonly code: ErrorCode; readonly message: string } | null {
  try {
    return error.parse(JSON.parse(answer));
  } catch {
    return null;
  }
}
