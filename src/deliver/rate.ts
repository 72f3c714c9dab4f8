import type { Clock } from '../clock.ts';

/** Share of a second that may be caught up in one burst. */
const BURST = 0.1;

/** A token bucket: how many deliveries a destination may start now. */
export class Rate {
  private readonly clock: Clock;
  private perSecond: number | null;
  private tokens = 0;
  private filledAt: number;

  constructor(perSecond: number | null, clock: Clock) {
    this.clock = clock;
    this.perSecond = perSecond;
    this.filledAt = clock.monotonic();
    this.tokens = this.capacity;
  }

  change(perSecond: number | null): void {
    if (perSecond === this.perSecond) return;
    this.perSecond = perSecond;
    this.filledAt = this.clock.monotonic();
    this.tokens = Math.min(this.tokens, this.capacity);
  }

  /** Deliveries that may start now; infinite without a limit. */
  get available(): number {
    if (this.perSecond === null) return Number.POSITIVE_INFINITY;
    const now = this.clock.monotonic();
    this.tokens = Math.min(this.capacity, this.tokens + ((now - this.filledAt) / 1_000) * this.perSecond);
    this.filledAt = now;
    return Math.floor(this.tokens);
  }

  take(): boolean {
    if (this.perSecond === null) return true;
    if (this.available < 1) return false;
    this.tokens -= 1;
    return true;
  }

  /** Milliseconds until half a burst may start: claims of one delivery each would cost a transaction each. */
  get delay(): number {
    if (this.perSecond === null) return 0;
    const wanted = Math.max(1, this.capacity / 2) - this.tokens;
    return Math.max(1, Math.ceil((wanted / this.perSecond) * 1_000));
  }

  private get capacity(): number {
    return this.perSecond === null ? 0 : Math.max(1, this.perSecond * BURST);
  }
}
