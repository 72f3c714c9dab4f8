import type { ReceiverClock } from '../../../receivers/index.ts';

export interface ManualClock extends ReceiverClock {
  advance(ms: number): void;
  /** Timers that would keep a process alive. */
  waiting(): number;
  /** Timers in the background too. */
  timers(): number;
}

/** A clock that stands still until a test moves it. */
export function manualClock(): ManualClock {
  let time = 0;
  const timers = new Set<{ at: number; callback: () => void; background: boolean }>();
  return {
    now: () => time,
    after(ms, callback, { background = false } = {}) {
      const timer = { at: time + ms, callback, background };
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
    waiting: () => [...timers].filter(({ background }) => !background).length,
    timers: () => timers.size,
  };
}

/** A promise with its handles outside, for tests that wait for signals. */
export const signal = <T = void>() => Promise.withResolvers<T>();
