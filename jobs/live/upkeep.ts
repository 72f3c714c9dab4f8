import type { Clock } from '../../src/kernel/clock.ts';
import type { LiveAudience } from '../../src/store/live.ts';
import type { Store } from '../../src/store/port.ts';
import type { JobLog } from '../run/run-context.ts';
import type { LivePlace } from './step.ts';

export interface UpkeepParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: JobLog;
  readonly signal: AbortSignal;
  /** Starts a run that sends the changes an audience on hold has missed, or holds them for a person. */
  readonly settle: (key: string) => Promise<void>;
}

/** The hold of a rejected change, until a person decides otherwise. */
export const REJECTED = 'rejected';
/** Milliseconds between checks of audiences on hold. */
const LOOK_EVERY = 500;
/** Milliseconds between removals of old changes. */
const PRUNE_EVERY = 3_600_000;
/** The most rows of ended states removed at once. */
export const CLEARED = 2_000;

/** A leader's housekeeping: ends holds and removes rows that nobody needs any more. */
export class Upkeep {
  /** Audiences no longer on hold that may have pending changes. */
  readonly flush = new Set<string>();
  /** True once an audience was retired and is to begin again. */
  isIncomplete = false;
  private readonly parts: UpkeepParts;
  private readonly place: LivePlace;
  private onHold: ReadonlySet<string>;
  private lookedAt = Number.NEGATIVE_INFINITY;
  private prunedAt = Number.NEGATIVE_INFINITY;
  private isLooking = false;

  constructor(parts: UpkeepParts, place: LivePlace) {
    this.parts = parts;
    this.place = place;
    this.onHold = new Set(place.computations.keys());
  }

  /** Starts the work without waiting: a run may wait long for room in a queue. A stop waits for runs, not for this. */
  look(): void {
    const { store, clock, log, signal } = this.parts;
    if (this.isLooking || clock.monotonic() - this.lookedAt < LOOK_EVERY) return;
    this.lookedAt = clock.monotonic();
    this.isLooking = true;
    void Promise.all([this.settleHolds(), this.prune(), store.live.clearOver(this.place.source, CLEARED)])
      .catch((error) => {
        if (!signal.aborted) log.warn({ err: error }, 'Housekeeping of live audiences failed; retrying');
      })
      .finally(() => {
        this.isLooking = false;
      });
  }

  /** Removes old changes, which are kept as long as runs. */
  private async prune(): Promise<void> {
    const { store, clock } = this.parts;
    const { recordRetention } = this.place.config();
    if (!recordRetention || clock.monotonic() - this.prunedAt < PRUNE_EVERY) return;
    this.prunedAt = clock.monotonic();
    if (!(await store.trustsClocks(clock.now()))) return;
    const before = clock.now() - recordRetention.runs;
    await store.forgetHistory(before);
    await store.live.pruneChanges(before);
  }

  private async settleHolds(): Promise<void> {
    const { store, signal, settle } = this.parts;
    const { silent, computations } = this.place;
    const audiences = await this.audiences();
    await this.findRetired(audiences);
    const onHold = audiences.filter(({ key, hold }) => hold !== null && hold !== REJECTED && !silent.has(key));
    for (const { key } of onHold) {
      if (signal.aborted) return;
      const isPaused = computations.get(key)?.computation.paused;
      const waiting = await store.runs({ key, states: ['held'], limit: 1 });
      if (!isPaused && waiting.length === 0) await settle(key);
    }
    const now = onHold.length === 0 ? audiences : await this.audiences();
    const held = new Set(now.flatMap(({ key, hold }) => (hold === null && !silent.has(key) ? [] : key)));
    for (const key of this.onHold) if (!held.has(key)) this.flush.add(key);
    this.onHold = held;
  }

  /** A retired audience begins again unless it is paused, as a scheduled one does with its next sync. */
  private async findRetired(audiences: readonly LiveAudience[]): Promise<void> {
    const { silent, computations } = this.place;
    const known = new Set(audiences.map(({ key }) => key));
    const gone = [...computations.values()].filter(
      ({ computation: { key, paused } }) => !paused && !known.has(key) && !silent.has(key),
    );
    if (gone.length === 0) return;
    const paused = new Set((await this.parts.store.pausedAudiences()).map(({ key }) => key));
    this.isIncomplete = gone.some(({ computation }) => !paused.has(computation.key));
  }

  private async audiences(): Promise<readonly LiveAudience[]> {
    const { computations } = this.place;
    return (await this.parts.store.live.audiences()).filter(({ key }) => computations.has(key));
  }
}
