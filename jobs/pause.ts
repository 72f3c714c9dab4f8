import type { Clock } from '../src/clock.ts';

/** Longer than anybody waits. */
const EVER = 2 ** 30;

/** Waits; rejects with the signal's reason as soon as it aborts. */
export function pause(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  // The clock's own timers let the process end, which must not happen in the middle of a command that waits.
  const awake = setInterval(() => {}, EVER);
  const waiting = new Promise<void>((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = () => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = clock.after(ms, () => {
      signal?.removeEventListener('abort', stop);
      resolve();
    });
    signal?.addEventListener('abort', stop, { once: true });
  });
  return waiting.finally(() => clearInterval(awake));
}
