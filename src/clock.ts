import { randomBytes, randomUUID } from 'node:crypto';

/** The only door to time and randomness, so that tests can hold both. */
export interface Clock {
  /** Milliseconds since 1970, UTC. */
  now(): number;
  /** Milliseconds that never go back, for deadlines and leases. */
  monotonic(): number;
  /** A number in [0, 1). */
  random(): number;
  uuid(): string;
  /** Hexadecimal digits of `bytes` random bytes. */
  token(bytes: number): string;
  /** Calls back after `ms`; the returned function cancels. Never keeps the process alive. */
  after(ms: number, callback: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  random: () => Math.random(),
  uuid: () => randomUUID(),
  token: (bytes) => randomBytes(bytes).toString('hex'),
  after(ms, callback) {
    const timer = setTimeout(callback, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
};
