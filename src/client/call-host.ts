import { textOf } from './errors.ts';

/**
 * Calls what is the host's: whatever it throws, or rejects with later, must not stop the client, or end the process.
 *
 * @param failed - gets that as text
 */
export function callHost(call: () => unknown, failed: (why: string) => void): void {
  const tell = (error: unknown) => failed(textOf(error));
  try {
    const given = call();
    if (given instanceof Promise) given.catch(tell);
  } catch (error) {
    tell(error);
  }
}
