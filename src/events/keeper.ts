import type { Clock } from '../kernel/clock.ts';
import { RollcallError } from '../kernel/errors.ts';
import { failpoint } from '../kernel/failpoint.ts';
import { waitForLease } from '../kernel/keep-lease.ts';
import { dayOf } from '../kernel/timestamp.ts';
import type { ErasedIds, IdentityLinks } from '../store/deleted-ids.ts';
import { EVENT_LOG_LEASE, type EventLog, type FileLog, type LogState, type TableLog } from '../store/event-log.ts';
import { erasingIn, linksInFiles } from '../store/events/erasing.ts';
import type { LogFiles } from '../store/events/files.ts';
import { Workbench } from '../store/events/parquet.ts';
import { loadLog } from '../store/events/scan.ts';
import { withLikelyAt } from '../store/events/views.ts';
import type { Fence, Store } from '../store/port.ts';
import { DayCopies } from './day-copies.ts';
import { type Erasure, eraseFromUnlisted, eraseUsers } from './erasure.ts';
import { insistOnFiles } from './missing.ts';
import { applyToRestored, DeletionNotes, noteInTable } from './notes.ts';
import { compact, isDue, nextMerge, type Sealed, sealTail } from './sealing.ts';

interface KeeperParts {
  readonly store: Pick<
    Store,
    'id' | 'events' | 'trustsClocks' | 'takeLease' | 'renewLease' | 'releaseLease' | 'time' | 'hashKey'
  >;
  /** Rebuilds the state of all live audiences from the log. */
  readonly live: { rebuildAll(): Promise<void> };
  readonly clock: Clock;
  readonly log: { warn(details: object, message: string): void; info(details: object, message: string): void };
  readonly files: LogFiles;
  /** Milliseconds for which events are kept. */
  readonly keep: () => number;
  readonly onFailure?: () => void;
}

const LOOK_EVERY = 5_000;
/** Interval at which expired days are dropped and partitions made for coming ones. */
const DAYS_EVERY = 3_600_000;
/** Milliseconds of store time for which replaced files are kept, for SQL that still reads them. */
const GRACE = 10 * 60_000;
/** Milliseconds of store time after which no upload of a file arrives any more. */
const LATE = 3_600_000;
/** Milliseconds that a deletion waits for the lease of another process. */
const PATIENCE = 30 * 60_000;
const ASK_EVERY = 500;
/** A deletion takes no longer, in milliseconds. */
const RECENT = 2 * 86_400_000;

/**
 * Maintains the event log in the background: seals its tail into files, merges small files, drops expired days and erases
 * users. Any process may do so, one at a time.
 */
export class EventLogKeeper {
  private readonly parts: KeeperParts;
  private readonly stopping = new AbortController();
  private cancel = () => {};
  private work: Promise<unknown> = Promise.resolve();
  private daysAt = Number.NEGATIVE_INFINITY;
  private isRestored = false;
  /** Leftovers that were removed once. */
  private readonly removed = new Set<string>();
  private failing: { readonly since: number; readonly message: string } | null = null;

  constructor(parts: KeeperParts) {
    this.parts = parts;
  }

  /**
   * Refuse a place that is not that of the store's log. A bucket that does not answer is asked again before each use.
   *
   * @throws RollcallError `event_log_missing`, `event_log_taken`
   */
  async insist(): Promise<void> {
    const { store, files, log } = this.parts;
    try {
      if (store.events.kind === 'files') await insistOnFiles(files, store.events);
      await this.claim();
    } catch (error) {
      if (!(error instanceof RollcallError && error.code === 'bucket_failed')) throw error;
      log.warn({ err: error, stage: 'event-log' }, 'The event log is sealed once its bucket answers');
    }
  }

  /** The failure of the work that lasts, and since when; null if it goes on. */
  get trouble() {
    return this.failing;
  }

  private async claim(): Promise<void> {
    const { store, files } = this.parts;
    await files.claim({ store: store.id, isShared: store.events.kind === 'table' });
  }

  /** Check now, then every few seconds. */
  async start(): Promise<void> {
    await this.look();
    if (this.stopping.signal.aborted) return;
    this.cancel = this.parts.clock.roughly(LOOK_EVERY, () => void this.start());
  }

  /** Stop, and seal the tail unless another process holds the lease. */
  async stop(): Promise<void> {
    this.stopping.abort();
    this.cancel();
    await this.during(async () => {
      const { events } = this.parts.store;
      if (events.kind === 'files' && (await events.state()).tail.last > 0)
        await this.withLease((sealed) => sealTail(sealed));
    }, 'Could not seal the event log while stopping; the next start does it');
  }

  /**
   * Erase users from the log. Several requests share one rewrite of its files.
   *
   * @throws RollcallError `store_busy` when another process holds the log's lease for too long
   */
  async erase(requests: readonly Erasure[]): Promise<void> {
    const { store, clock, files } = this.parts;
    const { events, hashKey } = store;
    const at = clock.now();
    if (events.kind === 'table') {
      for (const { ids, sources } of requests) await events.forget(ids, sources);
      const copies = this.copiesOf(events);
      if (copies && !(await this.leased(() => copies.erase(requests), PATIENCE))) throw busy();
      return noteInTable(files, requests, await hashKey(), at);
    }
    const erasing = this.work.then(async () => {
      const done = await this.withLease(async (sealed) => {
        await sealTail(sealed);
        const key = await hashKey();
        await eraseUsers(sealed, requests);
        for (const { ids, sources } of requests) await events.forgetUnread(ids, sources);
        await this.removeLeftovers(events, 0);
        await eraseFromUnlisted(sealed, requests);
        await new DeletionNotes(files, events).add(requests, key, at);
      }, PATIENCE);
      if (!done) throw busy();
    });
    this.work = erasing.catch(() => {});
    await erasing;
  }

  /** True if the log has any of these ids again, after it was rid of them. */
  async names(ids: ErasedIds): Promise<boolean> {
    const { store, clock, files } = this.parts;
    const { events } = store;
    // The tail first: its events may move to a file in the meantime.
    if (events.kind === 'table' || (await events.names(ids))) return events.names(ids);
    const since = dayOf(clock.now() - RECENT);
    const recent = (await events.state()).files.filter(({ day }) => day >= since);
    if (recent.length === 0) return false;
    const bench = await Workbench.open(files, () => clock.token(12));
    try {
      const { isGone, losesId } = await erasingIn(bench, '', ids);
      return (await bench.matching(recent, `${isGone} OR ${losesId}`)).length > 0;
    } finally {
      await bench.close();
    }
  }

  /** Work with the links between ids that the log states. */
  async linked<T>(work: (links: IdentityLinks) => Promise<T>): Promise<T> {
    const { store, clock, files, keep } = this.parts;
    const { events } = store;
    if (events.kind === 'table') return work(events.links);
    const bench = await Workbench.open(files, () => clock.token(12));
    try {
      return await work(linksInFiles(bench, withLikelyAt((await loadLog(events, bench)).events, keep())));
    } finally {
      await bench.close();
    }
  }

  private look(): Promise<void> {
    return this.during(async () => {
      const { store } = this.parts;
      const { events } = store;
      if (!this.isRestored) await this.restore(events);
      if (events.kind === 'table') return this.lookAfterDays();
      // Also while there is nothing to do: a silent writer counts as dead.
      await this.claim();
      await this.lookAfterDays();
      const state = await events.state();
      if (isDue(state, store.time.now())) await this.withLease((sealed) => sealTail(sealed));
      if (this.mayMerge(await events.state())) {
        await this.withLease((sealed) => compact(sealed, this.today(), () => this.stopping.signal.aborted));
      }
      // Under the lease: what its holder has announced may not be listed yet.
      if ((await this.leftovers(events, GRACE)).length > 0)
        await this.withLease(() => this.removeLeftovers(events, GRACE));
      await this.parts.files.trim();
    }, 'Could not maintain the event log; retrying');
  }

  private copiesOf(log: TableLog): DayCopies | null {
    const { files, clock, log: logger } = this.parts;
    return DayCopies.of({ log, files, clock, logger, claim: () => this.claim() });
  }

  private today(): string {
    return dayOf(this.parts.clock.now());
  }

  private mayMerge({ files }: LogState): boolean {
    return nextMerge(files, this.today()) !== null;
  }

  /** Repeat the deletions that a restored backup lacks. */
  private async restore(events: EventLog): Promise<void> {
    const { files, store, live } = this.parts;
    const onErased = () => live.rebuildAll();
    if (events.kind === 'table') {
      await applyToRestored(files, events, () => store.hashKey(), onErased);
      this.isRestored = true;
      return;
    }
    const notes = new DeletionNotes(files, events);
    if (await notes.isBehind()) {
      const key = await store.hashKey();
      const done = await this.withLease(async (sealed) => {
        await sealTail(sealed);
        await notes.apply(sealed, key, onErased);
        await this.removeLeftovers(events, 0);
      });
      if (!done) return;
    }
    this.isRestored = true;
  }

  private async lookAfterDays(): Promise<void> {
    const { clock, store, keep } = this.parts;
    if (clock.monotonic() - this.daysAt < DAYS_EVERY) return;
    const { events } = store;
    const before = dayOf(clock.now() - keep());
    const mayDrop = await store.trustsClocks(clock.now());
    if (events.kind === 'table') {
      const done = await this.leased(async () => {
        await events.prepare(clock.now(), keep());
        if (mayDrop) await events.dropBefore(before);
        const copies = this.copiesOf(events);
        await copies?.copy();
        if (mayDrop) await copies?.dropBefore(before);
      });
      if (!done) return;
    } else if (mayDrop) {
      const old = (await events.state()).files.filter(({ day }) => day < before).map(({ name }) => name);
      if (old.length > 0) {
        if (!(await this.withLease(({ fence }) => events.replace(fence, old, [])))) return;
        failpoint('log_listed');
      }
    }
    this.daysAt = clock.monotonic();
  }

  /** Files that are not part of the log and are to be removed now. @param grace - milliseconds for which they are kept */
  private async leftovers(events: FileLog, grace: number) {
    const now = this.parts.store.time.now();
    return (await events.leftovers())
      .map(({ name, since }) => ({ name, age: now - since }))
      .filter(({ name, age }) => age >= grace && (grace === 0 || age >= LATE || !this.removed.has(name)));
  }

  /** They are removed twice: an upload that was given up may be carried out by the bucket after the first time. */
  private async removeLeftovers(events: FileLog, grace: number): Promise<void> {
    const old = await this.leftovers(events, grace);
    if (old.length === 0) return;
    failpoint('log_removing');
    await this.parts.files.remove(old.map(({ name }) => name));
    failpoint('log_removed');
    for (const { name } of old) this.removed.add(name);
    const over = old.filter(({ age }) => age >= LATE).map(({ name }) => name);
    await events.removed(over);
    for (const name of over) this.removed.delete(name);
  }

  private withLease(work: (sealed: Sealed) => Promise<void>, patience = 0): Promise<boolean> {
    const { store, files, clock } = this.parts;
    const log = store.events as FileLog;
    return this.leased(async (fence) => {
      await this.claim();
      await work({ log, files, clock, fence });
    }, patience);
  }

  /** Resolves to false, without doing the work, if another process holds the lease. */
  private async leased(work: (fence: Fence) => Promise<void>, patience = 0): Promise<boolean> {
    const { store, clock } = this.parts;
    const lease = await waitForLease(store, clock, EVENT_LOG_LEASE, { patience, askEvery: ASK_EVERY });
    if (!lease) return false;
    try {
      await work(lease.fence);
      return true;
    } finally {
      await lease.release();
    }
  }

  /** Run pieces of work one after the other, and log failures. */
  private during(work: () => Promise<unknown>, failure: string): Promise<void> {
    const done = this.work.then(work).then(
      () => {
        this.failing = null;
      },
      (error: unknown) => {
        const message = error instanceof Error ? error.message : String(error);
        this.failing = { since: this.failing?.since ?? this.parts.clock.now(), message };
        this.parts.onFailure?.();
        this.parts.log.warn({ err: error, stage: 'event-log' }, failure);
      },
    );
    this.work = done;
    return done;
  }
}

const busy = () => new RollcallError('store_busy', 'Another process is working on the event log. Try again later.');
