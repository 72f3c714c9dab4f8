/** Calls back after other work. Not every runtime has `setImmediate`, which is faster; in some it only throws. */
export function later(callback: () => void): void {
  try {
    globalThis.setImmediate(callback);
  } catch {
    setTimeout(callback, 0);
  }
}

/** Steps, or milliseconds, between two breaks. */
const BREAK_AFTER = 64;
const BREAK_MS = 4;

/** Yields between steps that wait for nothing else: promises alone would starve timers and sockets. */
export class Breaks {
  readonly #now: () => number;
  #since = Number.NEGATIVE_INFINITY;
  #steps = 0;
  #pause: Promise<void> | undefined;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Await this before each step. */
  async next(): Promise<void> {
    // The first steps after a break may already make the next one due.
    while (this.#isDue()) {
      this.#pause ??= this.#take();
      await this.#pause;
    }
    this.#steps += 1;
  }

  #isDue(): boolean {
    return this.#pause !== undefined || this.#steps >= BREAK_AFTER || this.#now() - this.#since >= BREAK_MS;
  }

  async #take(): Promise<void> {
    await new Promise<void>((resolve) => later(resolve));
    this.#pause = undefined;
    this.#steps = 0;
    this.#since = this.#now();
  }
}
