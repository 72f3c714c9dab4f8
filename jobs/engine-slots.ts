/** Limits concurrent work. Waiters are served in order of arrival. */
export class EngineSlots {
  private readonly waiting: { readonly begin: () => void }[] = [];
  private readonly limit: () => number;
  private taken = 0;

  /** @param limit - called each time, so that a reloaded configuration takes effect */
  constructor(limit: () => number) {
    this.limit = limit;
  }

  /** Resolves to a function that releases the slot; rejects with the signal's reason once it aborts. */
  async take(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
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

  private fill(): void {
    while (this.taken < this.limit()) {
      const next = this.waiting.shift();
      if (!next) return;
      this.taken += 1;
      next.begin();
    }
  }
}
