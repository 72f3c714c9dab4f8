import type { DeadReason } from '../kernel/dead-reasons.ts';

/** Counters of a destination: pending, dead letters, counted towards its limit, held out by that limit. */
export const BACKLOG_COUNTS = ['pending', 'dead', 'queued', 'heldOut'] as const;
export const RUN_COUNTS = ['deliveries', 'untried', 'delivered', 'died', 'superseded'] as const;

export type CounterValues = Record<(typeof BACKLOG_COUNTS)[number] | (typeof RUN_COUNTS)[number], number>;

const NOTHING: Readonly<CounterValues> = {
  ...{ pending: 0, dead: 0, queued: 0, heldOut: 0 },
  ...{ deliveries: 0, untried: 0, delivered: 0, died: 0, superseded: 0 },
};

/**
 * Sums a transaction's counter changes, to write them once at its end. Keys are the names of destinations and runs, or
 * the numbers that stand for them.
 */
export class CounterChanges<K> {
  private readonly ofDestinations = new Map<K, CounterValues>();
  private readonly ofRuns = new Map<K, CounterValues>();

  add(destination: K, run: K | null, change: Partial<CounterValues>): void {
    sum(this.ofDestinations, destination, change);
    if (run !== null) sum(this.ofRuns, run, change);
  }

  /** Counts a delivery that leaves the queue neither delivered nor dead. Deletion notices never do. */
  takenBack(destination: K, run: K | null, tries: number): void {
    const untried = tries === 0 ? -1 : 0;
    this.add(destination, run, { pending: -1, queued: untried, superseded: 1, untried });
  }

  /** Counts a removed letter. One held out by a full queue still belonged to its run. */
  letterGone(destination: K, run: K | null, reason: DeadReason, as: 'died' | 'superseded'): void {
    if (reason !== 'queue_full') this.add(destination, null, { dead: -1 });
    else this.add(destination, run, { dead: -1, heldOut: -1, [as]: 1, untried: -1 });
  }

  of(destination: K): Readonly<CounterValues> {
    return this.ofDestinations.get(destination) ?? NOTHING;
  }

  get destinations(): readonly (readonly [K, Readonly<CounterValues>])[] {
    return changed(this.ofDestinations, BACKLOG_COUNTS);
  }

  get runs(): readonly (readonly [K, Readonly<CounterValues>])[] {
    return changed(this.ofRuns, RUN_COUNTS);
  }
}

function sum<K>(into: Map<K, CounterValues>, key: K, change: Partial<CounterValues>): void {
  let sums = into.get(key);
  if (!sums) {
    sums = { ...NOTHING };
    into.set(key, sums);
  }
  for (const name in change) sums[name as keyof CounterValues] += change[name as keyof CounterValues] ?? 0;
}

function changed<K>(sums: ReadonlyMap<K, CounterValues>, names: readonly (keyof CounterValues)[]) {
  return [...sums].filter(([, counts]) => names.some((name) => counts[name] !== 0));
}
