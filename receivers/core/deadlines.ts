import type { ReceiverClock } from '../options.ts';
import { Linked, LinkedList } from './linked.ts';

/** Something that has a deadline. */
export interface Wait {
  /** Cancels the deadline. */
  end(): void;
}

/** An entry of {@link Deadlines}. */
export abstract class Timed extends Linked {
  /** Milliseconds since 1970. */
  readonly at: number;
  /** Cancels its own timer, if it has one. */
  disarm: (() => void) | undefined;

  constructor(at: number) {
    super();
    this.at = at;
  }

  /** Called at the deadline. */
  abstract expired(): void;
}

class DeadlineCallback extends Timed implements Wait {
  readonly expired: () => void;
  readonly #unwatch: (each: Timed) => boolean;

  constructor(at: number, expired: () => void, unwatch: (each: Timed) => boolean) {
    super(at);
    this.expired = expired;
    this.#unwatch = unwatch;
  }

  end(): void {
    this.#unwatch(this);
  }
}

const background = { background: true };

/** Calls back for entries that are still open at their deadline. All share a timer: one per request would cost as much as its signature. */
export interface Deadlines {
  watch(each: Timed): void;
  /** Removes an entry; false when it had expired before. */
  unwatch(each: Timed): boolean;
  /** @param at - milliseconds since 1970 */
  add(at: number, expired: () => void): Wait;
  /** Expires all open entries, and any added from now on. */
  close(): void;
}

/**
 * @param isShared - false if a timer ends with the request that set it: each entry then has its own
 */
export function createDeadlines(clock: ReceiverClock, isShared = true): Deadlines {
  const open = new LinkedList<Timed>();
  let armedFor = Number.POSITIVE_INFINITY;
  let disarm = () => {};
  let closed = false;

  function arm(at: number): void {
    disarm();
    armedFor = at;
    disarm = clock.after(Math.max(0, at - clock.now()), expire, background);
  }

  function expire(): void {
    armedFor = Number.POSITIVE_INFINITY;
    const now = clock.now();
    let next = Number.POSITIVE_INFINITY;
    for (const each of [...open]) {
      if (each.at > now) next = Math.min(next, each.at);
      else end(each);
    }
    if (next < armedFor) arm(next);
  }

  function watch(each: Timed): void {
    open.add(each);
    if (closed) queueMicrotask(() => end(each));
    // Keeps the process alive: a function has no server that would.
    else if (!isShared) each.disarm = clock.after(Math.max(0, each.at - clock.now()), () => end(each));
    else if (each.at < armedFor) arm(each.at);
  }

  function end(each: Timed): void {
    if (unwatch(each)) each.expired();
  }

  function unwatch(each: Timed): boolean {
    each.disarm?.();
    return open.delete(each);
  }

  return {
    watch,
    unwatch,
    add(at, expired) {
      const callback = new DeadlineCallback(at, expired, unwatch);
      watch(callback);
      return callback;
    },
    close() {
      closed = true;
      disarm();
      for (const each of [...open]) end(each);
    },
  };
}
