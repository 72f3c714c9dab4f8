import { textOf } from './errors.ts';

/**
 * Calls a function of the host. An exception or a later rejection must not stop the client or end the process.
 *
 * @param failed - called with the error as text
 */
export function callHost(call: () => unknown, failed: (why: string) => void): void {
  const report = (error: unknown) => failed(textOf(error));
  try {
    const given = call();
    if (given instanceof Promise) given.catch(report);
  } catch (error) {
    report(error);
  }
}
