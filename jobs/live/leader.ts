import { RollcallError } from '../../src/kernel/errors.ts';
import { keepLease, type Lease } from '../../src/kernel/keep-lease.ts';
import type { Fence, Store } from '../../src/store/port.ts';
import type { SyncConfig } from '../audience-or-trait.ts';
import type { AcceptChanges } from '../run/run-context.ts';
import { type LiveComputation, liveComputations } from './definitions.ts';
import { askedOf } from './facts.ts';
import type { LoopParts } from './loop.ts';
import { prepare } from './prepare.ts';
import { CLEARED } from './upkeep.ts';

export interface LiveParts extends Omit<LoopParts, 'signal'> {
  readonly store: Store;
  readonly accept: AcceptChanges;
  readonly config: () => SyncConfig;
  /** Checks that this process may compute an audience. @throws RollcallError `older_configuration` */
  readonly check: (key: string, fence: Fence | null) => Promise<void>;
}

/** Milliseconds between a follower's attempts to lead. */
const ASK_EVERY = 1_000;
const FIRST_WAIT = 200;
const LONGEST_WAIT = 10_000;

/**
 * Computes the live definitions of one source while this process leads. All state is in the store. Removes it once the
 * source has no live definitions any more.
 */
export class LiveLeader {
  private readonly parts: LiveParts;
  private readonly source: string;
  private readonly signal: AbortSignal;
  private done: Promise<unknown> = Promise.resolve();
  private readonly stopping = new AbortController();

  constructor(parts: LiveParts, source: string) {
    this.parts = parts;
    this.source = source;
    this.signal = this.stopping.signal;
  }

  /** Runs until it is stopped. */
  start(): void {
    this.done = this.run();
  }

  /** Catches up with the log once, unless another process leads. */
  async once(): Promise<void> {
    const led = this.lead(true);
    this.done = led.catch(() => {});
    await led;
  }

  async stop(): Promise<void> {
    this.stopping.abort(new RollcallError('stopping', 'Rollcall is stopping.'));
    await this.done;
  }

  private async run(): Promise<void> {
    const { clock, log } = this.parts;
    for (let wait = FIRST_WAIT; !this.signal.aborted; ) {
      try {
        const led = await this.lead();
        wait = FIRST_WAIT;
        // It returns only when nothing is live any more.
        if (led) return;
        await clock.sleep(ASK_EVERY, this.signal);
      } catch (error) {
        if (this.signal.aborted) return;
        if (!isPassing(error))
          log.warn({ err: error, source: this.source }, 'Could not compute live audiences; retrying');
        await clock.sleep(wait, this.signal).catch(() => {});
        wait = Math.min(wait * 2, LONGEST_WAIT);
      }
    }
  }

  /** Resolves to true if this process had the lease. */
  private async lead(once = false): Promise<boolean> {
    const { store, clock, config, check } = this.parts;
    const found = liveComputations(config(), this.source);
    const lease = await keepLease(store, clock, `live:${this.source}`);
    if (!lease) return false;
    try {
      for (const key of await this.keys(found)) await check(key, lease.fence);
      await (found.length > 0 ? this.underLease(lease, found, once) : this.removeState(lease));
      return true;
    } finally {
      await lease.release();
    }
  }

  /** Keys of live definitions, or of the last ones if none are live. */
  private async keys(found: readonly LiveComputation[]): Promise<readonly string[]> {
    if (found.length > 0) return found.map(({ computation }) => computation.key);
    const { store } = this.parts;
    return (await store.live.audiences()).flatMap(({ key, source }) => (source === this.source ? key : []));
  }

  private async removeState({ fence, signal }: Lease<Fence>): Promise<void> {
    const { store } = this.parts;
    await store.live.dropSource(this.source, fence);
    while (await store.live.clearOver(this.source, CLEARED)) AbortSignal.any([this.signal, signal]).throwIfAborted();
  }

  private async underLease(lease: Lease<Fence>, found: readonly LiveComputation[], once: boolean): Promise<void> {
    const { store, accept, config } = this.parts;
    const keep = config().eventLog?.keep ?? 0;
    const definitions = found.map(({ definition }) => definition);
    const computations = new Map(found.map((each) => [each.computation.key, each]));
    const { source } = this;
    const whole = {
      store,
      accept,
      config,
      source,
      fence: lease.fence,
      hashKey: await store.hashKey(),
      asked: askedOf(definitions, keep),
      computations,
    };
    const parts = { ...this.parts, signal: AbortSignal.any([this.signal, lease.signal]) };
    let { loop, background } = await prepare(parts, whole, keep);
    while (background) {
      const work = background;
      await loop.run(work, once).finally(() => work.stop());
      ({ loop, background } = work.next(loop));
    }
    await (once ? loop.once() : loop.run(null));
  }
}

function isPassing(error: unknown): boolean {
  return (
    error instanceof RollcallError && ['live_moved', 'epoch_moved', 'fence_lost', 'store_busy'].includes(error.code)
  );
}
