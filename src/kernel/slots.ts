import type { RollcallError } from './errors.ts';

interface WaitingLine {
  /** The most that wait at once. */
  readonly most: number;
  /** The error for more. */
  readonly full: () => RollcallError;
}

/** Limits concurrent work. Waiters are served in order of arrival. */
export class Slots {
  private readonly waiting: { readonly begin: () => void }[] = [];
  private readonly limit: () => number;
  private readonly queue: WaitingLine | null;
  private taken = 0;

  /**
   * @param limit - called each time, so that a reloaded configuration takes effect
   * @param queue - without it, any number may wait
   */
  constructor(limit: () => number, queue: WaitingLine | null = null) {
    this.limit = limit;
    this.queue = queue;
  }

  /**
   * Resolves to a function that releases the slot; rejects with the signal's reason once it aborts.
   *
   * @throws RollcallError of the queue if it is full
   */
  async take(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.queue && this.taken >= this.limit() && this.waiting.length >= this.queue.most) throw this.queue.full();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const place = { begin: resolve };
    const leave = () => {
      const index = this.waiting.indexOf(place);
      if (index >= 0) this.waiting.splice(index, 1);
      reject(signal.reason);
    };
    signal.addEventListener('abort', leave, { once: true });
    this.waiting.push(place);
    this.fill();
    try {
      await promise;
    } finally {
      signal.removeEventListener('abort', leave);
    }
    return () => {
      this.taken -= 1;
      this.fill();
    };
  }

  /** Does the work in a slot. Rejects as `take` does. */
  async during<T>(signal: AbortSignal, work: () => Promise<T> | T): Promise<T> {
    const leave = await this.take(signal);
    try {
      return await work();
    } finally {
      leave();
    }
  }

  private fill(): void {
    while (this.taken < this.limit()) {
      const next = this.waiting.shift();
      if (!next) return;
      this.taken += 1;
      next.begin();
    }
  }
}
