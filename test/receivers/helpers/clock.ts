import type { ReceiverClock } from '../../../receivers/index.ts';

/** A clock that stands still until a test moves it. */
export function manualClock(): ReceiverClock & { advance(ms: number): void; waiting(): number } {
  let time = 0;
  const timers = new Set<{ at: number; callback: () => void }>();
  return {
    now: () => time,
    after(ms, callback) {
      const timer = { at: time + ms, callback };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    advance(ms) {
      time += ms;
      for (const timer of [...timers].filter(({ at }) => at <= time)) {
        timers.delete(timer);
        timer.callback();
      }
    },
    waiting: () => timers.size,
  };
}

/** A promise with its handles outside, for tests that wait for signals. */
export const signal = <T = void>() => Promise.withResolvers<T>();
