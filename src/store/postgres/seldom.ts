import type { Clock } from '../../kernel/clock.ts';

/** After work that took long, this many times as long passes before it is done again. */
const SHARE = 100;

/** Lets work that may pass everything that vacuum could not remove yet take a hundredth of the time at most. */
export class Seldom {
  private readonly clock: Clock;
  private next = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  async run(work: () => Promise<void>): Promise<void> {
    const begun = this.clock.monotonic();
    if (begun < this.next) return;
    await work();
    this.next = begun + (this.clock.monotonic() - begun) * SHARE;
  }
}
