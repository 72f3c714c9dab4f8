import { Linked, LinkedList } from './linked.ts';
import type { ReceiverClock } from './options.ts';

/** Something that has to end in time. */
export interface Wait {
  /** It ended in time. */
  end(): void;
}

/** An entry of {@link Deadlines}. */
export abstract class Timed extends Linked {
  /** Milliseconds since 1970. */
  readonly at: number;

  constructor(at: number) {
    super();
    this.at = at;
  }

  /** Its time has come. */
  abstract expired(): void;
}

class Callback extends Timed implements Wait {
  readonly expired: () => void;
  readonly #open: LinkedList<Timed>;

  constructor(at: number, expired: () => void, open: LinkedList<Timed>) {
    super(at);
    this.expired = expired;
    this.#open = open;
  }

  end(): void {
    this.#open.delete(this);
  }
}

/** Calls back for what is still open when its time has come. One timer serves all: one per request would cost as much as its signature. */
export interface Deadlines {
  watch(each: Timed): void;
  /** It ended; false when its time had come before. */
  unwatch(each: Timed): boolean;
  /** @param at - milliseconds since 1970 */
  add(at: number, expired: () => void): Wait;
  /** Expires whatever is open, and from now on whatever is added. */
  close(): void;
}

export function createDeadlines(clock: ReceiverClock): Deadlines {
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
      else if (open.delete(each)) each.expired();
    }
    if (next < armedFor) arm(next);
  }

  function watch(each: Timed): void {
    open.add(each);
    if (closed) queueMicrotask(() => open.delete(each) && each.expired());
    else if (each.at < armedFor) arm(each.at);
  }

  return {
    watch,
    unwatch: (each) => open.delete(each),
    add(at, expired) {
      const callback = new Callback(at, expired, open);
      watch(callback);
      return callback;
    },
    close() {
      closed = true;
      disarm();
      for (const each of [...open]) if (open.delete(each)) each.expired();
    },
  };
}
