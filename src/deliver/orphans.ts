import type { Clock } from '../kernel/clock.ts';
import type { Logger } from '../kernel/log.ts';
import type { Fence, Orphan, Store } from '../store/port.ts';

const LEASE = 'orphans';
/** Limit of rows changed in one transaction. */
const STEP = 1_000;
/** Interval of counting the time of orphans, in milliseconds: shorter if `removedAfter` is short. */
const LONGEST_INTERVAL = 30_000;
const SHORTEST_INTERVAL = 250;
/** Minimum number of counts in a grace period. */
const COUNTS = 8;

interface OrphansOptions {
  readonly store: Pick<Store, 'takeLease' | 'renewLease' | 'releaseLease' | 'countOrphans' | 'restNotices' | 'bury'>;
  readonly clock: Clock;
  readonly log: Logger;
  /** Time unknown after which a destination's deliveries die, in milliseconds. */
  readonly removedAfter: () => number;
}

/**
 * Ends deliveries whose destination no live process knows. One process, holding a lease, counts for how long processes
 * deliver without knowing it. It uses its steady clock from one count to the next: neither a downtime nor a step of the
 * wall clock counts.
 */
export class Orphans {
  private readonly options: OrphansOptions;
  private fence: Fence | null = null;
  /** Last count under this fence, by the steady clock; null before. */
  private countedAt: number | null = null;
  private readonly told = new Set<string>();

  constructor(options: OrphansOptions) {
    this.options = options;
  }

  /** Milliseconds from one count to the next. */
  get interval(): number {
    return Math.min(LONGEST_INTERVAL, Math.max(SHORTEST_INTERVAL, this.options.removedAfter() / COUNTS));
  }

  /** Counts if this process holds the lease, and buries destinations unknown for long enough. */
  async look(): Promise<void> {
    const fence = await this.hold();
    if (!fence) return;
    const { store, clock, removedAfter } = this.options;
    const now = clock.monotonic();
    // A process that was stopped has delivered nothing in that time.
    const elapsed = this.countedAt === null ? 0 : Math.min(Math.round(now - this.countedAt), 2 * this.interval);
    const orphans = await store.countOrphans(fence, elapsed);
    this.countedAt = now;
    this.tell(orphans);
    const limit = removedAfter();
    for (const { destination, unknownFor } of orphans) {
      if (unknownFor >= limit) await this.bury(destination, limit);
      else await this.rest(destination);
    }
  }

  /** Releases the lease, so that another process counts. */
  async stop(): Promise<void> {
    const { fence } = this;
    this.fence = null;
    if (fence) await this.options.store.releaseLease(fence).catch(() => undefined);
  }

  private async hold(): Promise<Fence | null> {
    const { store } = this.options;
    const ttl = 3 * this.interval;
    if (this.fence && (await store.renewLease(this.fence, ttl))) return this.fence;
    this.countedAt = null;
    this.fence = await store.takeLease(LEASE, ttl);
    return this.fence;
  }

  /** Deletion notices get their four hours once somebody serves the destination again. */
  private async rest(destination: string): Promise<void> {
    while ((await this.options.store.restNotices(destination, STEP)) === STEP);
  }

  private async bury(destination: string, unknownFor: number): Promise<void> {
    const { store, log } = this.options;
    let buried = 0;
    for (let step = STEP; step === STEP; buried += step) step = await store.bury(destination, STEP, unknownFor);
    if (buried > 0)
      log.warn(
        { stage: 'deliver', destination, buried, unknownFor },
        'Made dead letters: no process has known the destination for removedAfter',
      );
  }

  /** Logs each orphan once while it is one. */
  private tell(orphans: readonly Orphan[]): void {
    const { log, removedAfter } = this.options;
    const names = new Set(orphans.map(({ destination }) => destination));
    for (const name of this.told) if (!names.has(name)) this.told.delete(name);
    for (const { destination, pending, since, unknownFor } of orphans) {
      if (this.told.has(destination)) continue;
      this.told.add(destination);
      const fields = { stage: 'deliver', destination, pending, since, unknownFor, removedAfter: removedAfter() };
      log.warn(
        fields,
        'No running process knows this destination: its deliveries wait and become dead letters after removedAfter',
      );
    }
  }
}
