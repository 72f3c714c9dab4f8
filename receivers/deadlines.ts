import { Linked, LinkedList } from './linked.ts';
import type { ReceiverClock } from './options.ts';

/** Something that has to end in time. */
export interface Wait {
  /** It ended in time. */
  end(): void;
}

class Entry extends Linked implements Wait {
  readonly at: number;
  readonly expired: () => void;
  readonly #open: LinkedList<Entry>;

  constructor(at: number, expired: () => void, open: LinkedList<Entry>) {
    super();
    this.at = at;
    this.expired = expired;
    this.#open = open;
    open.add(this);
  }

  end(): void {
    this.#open.delete(this);
  }
}

/** Calls back for what is still open when its time has come. One timer serves all: one per request would cost as much as its signature. */
export interface Deadlines {
  /** @param at - milliseconds since 1970 */
  add(at: number, expired: () => void): Wait;
  /** Expires whatever is open, and from now on whatever is added. */
  close(): void;
}

export function createDeadlines(clock: ReceiverClock): Deadlines {
  const open = new LinkedList<Entry>();
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
    for (const entry of [...open]) {
      if (entry.at > now) next = Math.min(next, entry.at);
      else if (open.delete(entry)) entry.expired();
    }
    if (next < armedFor) arm(next);
  }

  return {
    add(at, expired) {
      const entry = new Entry(at, expired, open);
      if (closed) queueMicrotask(() => open.delete(entry) && expired());
      else if (at < armedFor) arm(at);
      return entry;
    },
    close() {
      closed = true;
      disarm();
      for (const entry of [...open]) if (open.delete(entry)) entry.expired();
    },
  };
}
