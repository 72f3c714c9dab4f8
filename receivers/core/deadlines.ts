import type { ReceiverClock } from '../options.ts';
import { Linked, LinkedList } from './linked.ts';

/** Milliseconds that a request may take, unless the options say otherwise. */
export const DEADLINE = 4_500;

/** An entry of deadlines. */
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

class Alarm extends Timed {
  readonly expired: () => void;

  constructor(at: number, expired: () => void) {
    super(at);
    this.expired = expired;
  }
}

export type Deadlines = ReturnType<typeof createDeadlines>;

/**
 * Calls back for entries that are still open at their deadline. All share a timer: one per request would cost as much as
 * its signature.
 *
 * @param isShared - false if a timer ends with the request that set it: each entry then has its own
 */
export function createDeadlines(clock: ReceiverClock, isShared = true) {
  const open = new LinkedList<Timed>();
  let armedFor = Number.POSITIVE_INFINITY;
  let disarm = () => {};
  let closed = false;

  function arm(at: number): void {
    disarm();
    armedFor = at;
    disarm = clock.after(Math.max(0, at - clock.now()), expire, { background: true });
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

  /** Removes an entry; false when it had expired before. */
  function unwatch(each: Timed): boolean {
    each.disarm?.();
    return open.delete(each);
  }

  return {
    watch,
    unwatch,
    /** Calls back at this time, in milliseconds since 1970. Returns a function that cancels. */
    add(at: number, expired: () => void): () => void {
      const alarm = new Alarm(at, expired);
      watch(alarm);
      return () => void unwatch(alarm);
    },
    /** Expires all open entries, and any added from now on. */
    close(): void {
      closed = true;
      disarm();
      for (const each of [...open]) end(each);
    },
  };
}
