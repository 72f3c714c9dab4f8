import type { Clock } from '../../kernel/clock.ts';

/** Share of a second that can be made up in one burst. */
const BURST = 0.1;

/** A token bucket that limits how many deliveries a destination may start. */
export class Rate {
  private readonly clock: Clock;
  private perSecond: number | null;
  private tokens: number;
  private filledAt: number;

  constructor(clock: Clock, perSecond: number | null) {
    this.clock = clock;
    this.perSecond = perSecond;
    this.tokens = this.capacity;
    this.filledAt = clock.monotonic();
  }

  change(perSecond: number | null): void {
    if (perSecond === this.perSecond) return;
    this.fill();
    this.perSecond = perSecond;
    this.tokens = Math.min(this.tokens, this.capacity);
  }

  /** Deliveries that may start now; infinite without a limit. */
  get available(): number {
    if (this.perSecond === null) return Number.POSITIVE_INFINITY;
    this.fill();
    return Math.floor(this.tokens);
  }

  take(): boolean {
    if (this.perSecond === null) return true;
    if (this.available < 1) return false;
    this.tokens -= 1;
    return true;
  }

  /** Milliseconds until half a burst may start: claims of single deliveries would cost a transaction each. */
  get delay(): number {
    if (this.perSecond === null) return 0;
    const wanted = Math.max(1, this.capacity / 2) - this.tokens;
    return Math.max(1, Math.ceil((wanted / this.perSecond) * 1_000));
  }

  private fill(): void {
    const now = this.clock.monotonic();
    const gained = ((now - this.filledAt) / 1_000) * (this.perSecond ?? 0);
    this.tokens = Math.min(this.capacity, this.tokens + gained);
    this.filledAt = now;
  }

  private get capacity(): number {
    return this.perSecond === null ? 0 : Math.max(1, this.perSecond * BURST);
  }
}
