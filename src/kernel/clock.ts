import { randomBytes, randomUUID } from 'node:crypto';
import { uptime } from 'node:os';

/** The only access to time and randomness, so that tests can control both. */
export interface Clock {
  /** Milliseconds since 1970, UTC. */
  now(): number;
  /** Milliseconds that never go back, for deadlines and leases. They stand still while the machine is suspended (Linux). */
  monotonic(): number;
  /** Milliseconds since the machine was started, suspension included; accurate to some 10 ms, and slower than the others. */
  uptime(): number;
  /** A number in [0, 1). */
  random(): number;
  uuid(): string;
  /** Hexadecimal digits of `bytes` random bytes. */
  token(bytes: number): string;
  /** Calls back after `ms`; the returned function cancels. Never keeps the process alive. */
  after(ms: number, callback: () => void): () => void;
  /** Like `after`, for work that is repeated: at a full multiple of `ms`, so that one wakeup serves all that is then due. */
  roughly(ms: number, callback: () => void): () => void;
  /** Waits `ms` and keeps the process alive. Rejects with the signal's reason when that aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** Longer than any sleep, in milliseconds. */
const EVER = 2 ** 30;

/** The next full multiple of `ms`; the one after it if that is hardly a pause. */
export function nextMultiple(ms: number, now: number): number {
  return (Math.floor(now / ms + 0.1) + 1) * ms;
}

export function withTime(clock: Clock, now: () => number): Clock {
  return {
    now,
    monotonic: () => clock.monotonic(),
    uptime: () => clock.uptime(),
    random: () => clock.random(),
    uuid: () => clock.uuid(),
    token: (bytes) => clock.token(bytes),
    after: (ms, callback) => clock.after(ms, callback),
    roughly: (ms, callback) => clock.roughly(ms, callback),
    sleep: (ms, signal) => clock.sleep(ms, signal),
  };
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  uptime: () => {
    try {
      return uptime() * 1_000;
    } catch {
      // Without an uptime, a suspension looks like a step of the wall clock, which only lengthens times.
      return performance.now();
    }
  },
  random: () => Math.random(),
  uuid: () => randomUUID(),
  token: (bytes) => randomBytes(bytes).toString('hex'),
  after(ms, callback) {
    const timer = setTimeout(callback, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
  roughly(ms, callback) {
    const now = this.monotonic();
    return this.after(Math.ceil(nextMultiple(ms, now) - now), callback);
  },
  sleep(ms, signal) {
    const awake = setInterval(() => {}, EVER);
    const sleeping = new Promise<void>((resolve, reject) => {
      signal?.throwIfAborted();
      const stop = () => {
        cancel();
        reject(signal?.reason);
      };
      const cancel = this.after(ms, () => {
        signal?.removeEventListener('abort', stop);
        resolve();
      });
      signal?.addEventListener('abort', stop, { once: true });
    });
    return sleeping.finally(() => clearInterval(awake));
  },
};
