/** The only access to time and randomness, so that tests can control both. */
export interface ClientClock {
  /** Milliseconds since 1970, UTC. */
  now(): number;
  /** A number in [0, 1). */
  random(): number;
  uuid(): string;
  /** Calls back after `ms`; the returned function cancels. Keeps the process alive only if asked to. */
  after(ms: number, callback: () => void, keepAlive?: boolean): () => void;
}

const STEPS = 8;

/**
 * Calls back after `ms` of a running event loop. A blocked loop cannot see an answer that arrived long ago. So a block
 * counts for an eighth of `ms` at most, however long it lasts, and the loop gets a last pass before the call.
 */
export function deadline(clock: ClientClock, ms: number, callback: () => void, keepAlive = false): () => void {
  let left = STEPS;
  let cancel = () => {};
  const step = () => {
    cancel = left-- > 0 ? clock.after(ms / STEPS, step, keepAlive) : clock.after(0, callback, keepAlive);
  };
  step();
  return () => cancel();
}
