import * as z from 'zod';
import { suggestion } from '../spelling.ts';

/** A map of known keys. An unknown one is named with the key that was probably meant: one line of the message for each. */
export function section<S extends z.core.$ZodShape>(shape: S) {
  const known = Object.keys(shape);
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? issue.keys.map((key) => `is not a known key${suggestion(key, known)}`).join('\n')
        : undefined,
  });
}
