import * as z from 'zod';
import { suggestion } from '../kernel/spelling.ts';

/**
 * A map of known keys. The message has a line for each unknown key, with the key that was probably meant.
 *
 * @param elsewhere - the message for a key that belongs in another map
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
