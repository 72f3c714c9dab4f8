/** Not every runtime has the quick one. */
export const later: (callback: () => void) => void = globalThis.setImmediate ?? ((callback) => setTimeout(callback, 0));

/** After so many steps, or milliseconds, there is a break. */
const BREAK_AFTER = 64;
const BREAK_MS = 4;

/** Lets others in between steps that wait for nothing else: promises alone keep timers and sockets waiting. */
export class Breaks {
  readonly #now: () => number;
  #since = Number.NEGATIVE_INFINITY;
  #steps = 0;
  #pause: Promise<void> | undefined;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** To be waited for before each step. */
  async next(): Promise<void> {
    // Of those that a break lets go on, the first ones may make the next break due.
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
