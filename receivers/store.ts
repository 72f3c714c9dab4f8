import type { Awaitable } from './options.ts';

/** Remembers what was handled, so that a repeated request is not handled twice. */
export interface ReceiverStore {
  /** `running`: another process has it now. `stored` is given with `ack: 'stored'` and must then be kept. */
  begin(key: string, stored?: StoredRequest): Awaitable<'new' | 'running' | 'done'>;
  /** Handled: from now on `begin` answers `done`. */
  done(key: string): Awaitable<void>;
  /** Failed: from now on `begin` answers `new` again. */
  release(key: string): Awaitable<void>;
  /** Remembers the highest number of `name`; false when `sequence` is lower than that. */
  advance(name: string, sequence: number): Awaitable<boolean>;
}

/** A request as it is kept with `ack: 'stored'`. */
export interface StoredRequest {
  body: Buffer;
  url: string;
  secret: number | undefined;
}

/** A store that keeps the requests themselves, which `ack: 'stored'` needs. */
export interface Inbox extends ReceiverStore {
  /** What was stored and neither done nor given up, oldest first. */
  pending(): Awaitable<Iterable<StoredRequest & { key: string }>>;
  /** No further try: kept for a person to look at. */
  giveUp(key: string): Awaitable<void>;
}

/** A map that forgets its oldest entries beyond `max`; what is set again counts as new. */
function forgetfulMap<V>(max: number) {
  const entries = new Map<string, V>();
  let oldest: MapIterator<string> | undefined;
  return {
    get: (key: string) => entries.get(key),
    set(key: string, value: V): void {
      entries.delete(key);
      entries.set(key, value);
      if (entries.size <= max) return;
      // Always the same iterator: a new one would pass over all that was deleted, at each call.
      oldest ??= entries.keys();
      entries.delete(oldest.next().value as string);
    },
  };
}

/**
 * Memory of one process.
 *
 * @param max - entries kept of each kind (default 100,000, about 13 MB each); beyond that the oldest are forgotten.
 */
export function memoryStore({ max = 100_000 } = {}): ReceiverStore {
  const handled = forgetfulMap<true>(max);
  const sequences = forgetfulMap<number>(max);
  return {
    begin: (key) => (handled.get(key) ? 'done' : 'new'),
    done: (key) => handled.set(key, true),
    release() {},
    advance(name, sequence) {
      const seen = sequences.get(name);
      if (seen !== undefined && sequence < seen) return false;
      sequences.set(name, sequence);
      return true;
    },
  };
}
