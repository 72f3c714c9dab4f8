import type { ReceiverClock } from './options.ts';

interface Entry {
  readonly at: number;
  readonly expired: () => void;
}

/** Calls back for what is still open when its time has come. One timer serves all: one per request would cost as much as its signature. */
export interface Deadlines {
  /** @param at - milliseconds since 1970; the returned function says that it ended in time */
  add(at: number, expired: () => void): () => void;
  /** Expires whatever is open, and from now on whatever is added. */
  close(): void;
}

export function createDeadlines(clock: ReceiverClock): Deadlines {
  const open = new Set<Entry>();
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
    for (const entry of open) {
      if (entry.at > now) next = Math.min(next, entry.at);
      else {
        open.delete(entry);
        entry.expired();
      }
    }
    if (next < armedFor) arm(next);
  }

  return {
    add(at, expired) {
      const entry = { at, expired };
      open.add(entry);
      if (closed) queueMicrotask(() => open.delete(entry) && expired());
      else if (at < armedFor) arm(at);
      return () => void open.delete(entry);
    },
    close() {
      closed = true;
      disarm();
      for (const { expired } of [...open]) expired();
      open.clear();
    },
  };
}
