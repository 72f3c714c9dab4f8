import type { Clock } from '../clock.ts';

/** Share of a second that may be caught up in one burst. */
const BURST = 0.1;

/** A token bucket: how many deliveries a destination may start now. */
export class Rate {
  private readonly siblings: RateSiblings;
  private perSecond: number | null;
  private tokens = 0;

  /** @param siblings - the destination's buckets for the other databases, which the limit is shared with */
  constructor(perSecond: number | null, siblings: RateSiblings) {
    this.siblings = siblings;
    this.perSecond = perSecond;
    this.tokens = this.capacity;
    siblings.add(this);
  }

  /** Leaves its part to the others, for good. */
  leave(): void {
    this.siblings.remove(this);
  }

  change(perSecond: number | null): void {
    if (perSecond === this.perSecond) return;
    this.siblings.fill();
    this.perSecond = perSecond;
    this.tokens = Math.min(this.tokens, this.capacity);
  }

  /** Deliveries that may start now; infinite without a limit. */
  get available(): number {
    if (this.perSecond === null) return Number.POSITIVE_INFINITY;
    this.siblings.fill();
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
    return Math.max(1, Math.ceil((wanted / this.perSecond) * 1_000 * this.siblings.hungry));
  }

  /** Milliseconds until it is full. */
  get room(): number {
    return this.perSecond === null ? 0 : ((this.capacity - this.tokens) / this.perSecond) * 1_000;
  }

  /** Fills it with what so many milliseconds allow. */
  fill(ms: number): void {
    this.tokens = Math.min(this.capacity, this.tokens + (ms / 1_000) * (this.perSecond ?? 0));
  }

  private get capacity(): number {
    return this.perSecond === null ? 0 : Math.max(1, this.perSecond * BURST);
  }
}

/**
 * The buckets of one destination in this process, one for each database that its deliveries come from. They divide the
 * time between them, so that together they keep the limit, and none starves.
 */
export class RateSiblings {
  private readonly clock: Clock;
  private rates: Rate[] = [];
  private filledAt: number;

  constructor(clock: Clock) {
    this.clock = clock;
    this.filledAt = clock.monotonic();
  }

  add(rate: Rate): void {
    this.rates.push(rate);
  }

  remove(rate: Rate): void {
    this.rates = this.rates.filter((other) => other !== rate);
  }

  /** Those that are not full. */
  get hungry(): number {
    return this.rates.filter(({ room }) => room > 0).length;
  }

  /** Gives each an equal part of the time gone by; what one has no room for goes to the others. */
  fill(): void {
    const now = this.clock.monotonic();
    let left = now - this.filledAt;
    this.filledAt = now;
    this.rates.sort((a, b) => a.room - b.room);
    for (const [index, rate] of this.rates.entries()) {
      const part = Math.min(rate.room, left / (this.rates.length - index));
      rate.fill(part);
      left -= part;
    }
  }
}

/** The rate limits of one process. */
export class Rates {
  private readonly clock: Clock;
  private readonly destinations = new Map<string, RateSiblings>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** A bucket for one database's deliveries to a destination. */
  bucket(destination: string, perSecond: number | null): Rate {
    const siblings = this.destinations.get(destination) ?? new RateSiblings(this.clock);
    this.destinations.set(destination, siblings);
    return new Rate(perSecond, siblings);
  }
}
