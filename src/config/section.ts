import * as z from 'zod';
import { suggestion } from '../kernel/spelling.ts';

/**
 * A map of known keys. An unknown one is named with the key that was probably meant: one line of the message for each.
 *
 * @param elsewhere - where a key belongs that is known in another map
 */
export function section<S extends z.core.$ZodShape>(
  shape: S,
  elsewhere: (key: string) => string | undefined = () => undefined,
) {
  const known = Object.keys(shape);
  const unknown = (key: string) => elsewhere(key) ?? `is not a known key${suggestion(key, known)}`;
  return z.strictObject(shape, {
    error: (issue) => (issue.code === 'unrecognized_keys' ? issue.keys.map(unknown).join('\n') : undefined),
  });
}
