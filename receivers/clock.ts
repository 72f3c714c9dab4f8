import type { ReceiverClock } from './options.ts';

/** Timers hold 31 bits. A longer one would call back at once. */
const LONGEST_TIMER = 2 ** 31 - 1;

export const systemClock: ReceiverClock = {
  now: () => Date.now(),
  after(ms, callback, { background = false } = {}) {
    const timer = setTimeout(callback, Math.min(ms, LONGEST_TIMER));
    if (background && typeof timer === 'object') timer.unref();
    return () => clearTimeout(timer);
  },
};

/** Resolves to the outcome of `work`. After `ms` without one, calls `late` instead. */
export function within<T>(clock: ReceiverClock, ms: number, work: PromiseLike<T>, late: () => T): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(Math.max(0, ms), () => {
      try {
        resolve(late());
      } catch (error) {
        reject(error);
      }
    });
    work.then(
      (value) => {
        cancel();
        resolve(value);
      },
      (error) => {
        cancel();
        reject(error);
      },
    );
  });
}
