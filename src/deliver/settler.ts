import type { Clock } from '../kernel/clock.ts';
import { backoff } from '../kernel/retry.ts';
import type { Settlement } from '../store/port.ts';

/** Limit of settlements written in one transaction. */
const BATCH_LIMIT = 1_000;
/** This many are written without waiting for more. */
const ENOUGH = 400;
/** Times the store may refuse a settlement, while it accepts others, before it is given up. */
const REFUSALS_LIMIT = 5;
const RETRY_BASE = 50;
const RETRY_CAP = 2_000;

type Settle = (settlements: readonly Settlement[]) => Promise<void>;

export interface SettlerHooks {
  readonly onWritten: (settlements: readonly Settlement[]) => void;
  readonly onFailure: (error: unknown) => void;
  /** Called with a settlement that the store keeps rejecting; its delivery stays claimed until this process ends. */
  readonly onGivenUp: (settlement: Settlement, error: unknown) => void;
  /** Called if the write loop fails: no settlement would be written any more. */
  readonly onFatal: (error: unknown) => void;
}

interface SettlerOptions {
  readonly settle: Settle;
  readonly clock: Clock;
  /** Milliseconds to gather settlements that nothing waits for. */
  readonly interval: number;
  readonly hooks: SettlerHooks;
}

/**
 * Gathers settlements for a while, and while a batch is being written: writing a batch costs hardly more than one.
 * Keeps them until the store has accepted them.
 */
export class Settler {
  private readonly settle: Settle;
  private readonly clock: Clock;
  private readonly interval: number;
  private readonly hooks: SettlerHooks;
  private queue: Settlement[] = [];
  private batch: readonly Settlement[] = [];
  private limit = BATCH_LIMIT;
  /** Failures of single settlements, counted only if others were written in between. */
  private readonly refusals = new Map<Settlement, number>();
  /** Characters of the bodies of unwritten settlements. */
  characters = 0;
  private writtenSinceRefusal = false;
  private writing: Promise<void> | null = null;
  /** True if something waits for the queued settlements. */
  private isUrgent = false;
  private endGathering = () => {};
  private isHopeless = () => false;

  constructor({ settle, clock, interval, hooks }: SettlerOptions) {
    this.settle = settle;
    this.clock = clock;
    this.interval = interval;
    this.hooks = hooks;
  }

  /** Settlements not yet written. */
  get size(): number {
    return this.queue.length + this.batch.length;
  }

  add(settlement: Settlement): void {
    this.queue.push(settlement);
    this.characters += settlement.claim.body.length;
    if (this.queue.length >= ENOUGH || isAwaited(settlement)) this.hurry();
    this.writing ??= this.write().catch((error) => {
      this.writing = null;
      this.hooks.onFatal(error);
    });
  }

  /** Resolves when everything added so far is written, or if a write fails and `isHopeless` returns true. */
  async flush(isHopeless: () => boolean): Promise<void> {
    this.isHopeless = isHopeless;
    while (this.writing) {
      this.hurry();
      await this.writing;
    }
  }

  /** Tries to write everything once, without retries. */
  handIn(): void {
    const rest = this.queue;
    this.queue = [];
    this.characters -= charactersOf(rest);
    if (rest.length > 0) this.settle(rest).catch((error) => this.hooks.onFailure(error));
  }

  /** Forgets settlements of claims that are no longer ours. */
  clear(): void {
    this.queue = [];
    this.batch = [];
    this.characters = 0;
    this.refusals.clear();
  }

  /** Halves a failed batch to find the settlement at fault, so that the others do not wait for it. */
  private takeBack(batch: readonly Settlement[], error: unknown): void {
    this.limit = Math.ceil(batch.length / 2);
    const [settlement, ...others] = batch;
    if (!settlement || others.length > 0) {
      this.queue = batch.concat(this.queue);
      return;
    }
    const refusals = (this.refusals.get(settlement) ?? 0) + (this.writtenSinceRefusal ? 1 : 0);
    this.writtenSinceRefusal = false;
    this.refusals.set(settlement, refusals);
    if (refusals < REFUSALS_LIMIT) this.queue.push(settlement);
    else {
      this.refusals.delete(settlement);
      this.characters -= charactersOf([settlement]);
      this.hooks.onGivenUp(settlement, error);
    }
  }

  private hurry(): void {
    this.isUrgent = true;
    this.endGathering();
  }

  private async gather(): Promise<void> {
    // Settlements of one pass of the event loop are written together.
    await new Promise((resolve) => setImmediate(resolve));
    if (this.isUrgent || this.interval === 0) return;
    await new Promise<void>((resolve) => {
      const cancel = this.clock.after(this.interval, resolve);
      this.endGathering = () => {
        cancel();
        resolve();
      };
    });
  }

  private async write(): Promise<void> {
    for (let failures = 0; this.queue.length > 0; ) {
      await this.gather();
      const batch = this.queue.splice(0, this.limit);
      this.isUrgent = this.queue.length > 0;
      // They were cleared or handed in during the wait.
      if (batch.length === 0) break;
      this.batch = batch;
      try {
        await this.settle(batch);
        // Not if they were cleared in the meantime.
        if (this.batch === batch) this.characters -= charactersOf(batch);
        this.batch = [];
        failures = 0;
        this.limit = Math.min(BATCH_LIMIT, this.limit * 2);
        this.writtenSinceRefusal = true;
        for (const settlement of batch) this.refusals.delete(settlement);
        this.hooks.onWritten(batch);
      } catch (error) {
        failures += 1;
        this.hooks.onFailure(error);
        if (this.batch === batch) this.takeBack(batch, error);
        this.batch = [];
        if (this.isHopeless()) break;
        const wait = backoff(failures, this.clock.random(), RETRY_BASE, RETRY_CAP);
        await this.clock.sleep(wait);
      }
    }
    this.writing = null;
  }
}

const charactersOf = (settlements: readonly Settlement[]) =>
  settlements.reduce((sum, { claim }) => sum + claim.body.length, 0);

/**
 * True if another delivery waits for this settlement, or the next process for this delivery. A retry can wait with the
 * others, and so can a change sent with its whole audience. Written one by one, each of these would cost a sync to
 * disk.
 */
function isAwaited({ claim, verdict }: Settlement): boolean {
  const isAwaitedChange = claim.conflict !== null && claim.lane !== 'backfill';
  return (verdict.kind === 'release' && verdict.dueAt === null) || isAwaitedChange || claim.crashes > 0;
}
