import type { Clock } from '../../kernel/clock.ts';

/** Work is repeated only after this many times its own duration. */
const SHARE = 100;

/** Limits work to a hundredth of the time: it may have to pass all rows that vacuum could not yet remove. */
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
