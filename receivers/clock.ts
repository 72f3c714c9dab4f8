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

/** Resolves to the outcome of `work`. After `ms` without one, to that of `late`. */
export function within<T>(clock: ReceiverClock, ms: number, work: PromiseLike<T>, late: () => T): Promise<T> {
  let cancel = () => {};
  const timeout = new Promise<void>((resolve) => {
    cancel = clock.after(ms, resolve);
  });
  return Promise.race([work, timeout.then(late)]).finally(() => cancel());
}
