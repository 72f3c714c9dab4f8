import ms from 'ms';
import type { Clock } from '../src/kernel/clock.ts';
import { RollcallError } from '../src/kernel/errors.ts';

/** The longest delay that a timer takes. */
const LONGEST = 2 ** 31 - 1;

/**
 * Does work with a signal that aborts after `timeout` milliseconds, or when the given one does.
 *
 * @throws RollcallError `sql_timeout`
 */
export async function withinTime<T>(
  clock: Clock,
  timeout: number,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const over = new AbortController();
  const cancel = clock.after(Math.min(timeout, LONGEST), () => over.abort(tooLong(timeout)));
  const pass = () => over.abort(signal.reason);
  signal.throwIfAborted();
  signal.addEventListener('abort', pass, { once: true });
  try {
    return await work(over.signal);
  } finally {
    signal.removeEventListener('abort', pass);
    cancel();
  }
}

function tooLong(timeout: number): RollcallError {
  return new RollcallError(
    'sql_timeout',
    `The SQL was cancelled: it took longer than its timeout of ${ms(timeout, { long: true })}. Make it faster, or raise \`timeout\`.`,
  );
}
