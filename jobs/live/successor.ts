import { failpoint } from '../../src/kernel/failpoint.ts';
import { filesOf } from '../../src/store/events/open-files.ts';
import { build } from './build.ts';
import { type BackgroundWork, type Computing, Loop, type LoopParts } from './loop.ts';
import type { LivePlace } from './step.ts';
import { Sweep } from './sweep.ts';

/** A place that has no state yet. */
export type Stateless = Omit<LivePlace, 'state' | 'silent' | 'isStale'>;

/**
 * Builds another state, because the serving one is stale or lacks facts for some definitions. In the meantime that one
 * serves the others. Then this one follows the log, computes only the new definitions, and takes over in one step.
 */
export class Successor implements BackgroundWork {
  private readonly parts: LoopParts;
  private readonly whole: Stateless;
  private readonly keys: ReadonlySet<string>;
  private readonly isStale: boolean;
  private readonly stopping = new AbortController();
  private readonly building: Promise<void>;
  private failure: { readonly error: unknown } | null = null;
  private found: { readonly loop: Loop; readonly place: LivePlace; readonly silent: Set<string> } | null = null;

  /**
   * @param keys - definitions that the serving state can't compute
   * @param isStale - true if that state's values of the others are unreliable
   */
  constructor(parts: LoopParts, whole: Stateless, keys: ReadonlySet<string>, isStale: boolean) {
    this.parts = parts;
    this.whole = whole;
    this.keys = keys;
    this.isStale = isStale;
    this.building = this.build().catch((error) => {
      this.failure = { error };
    });
  }

  async round(running: Loop): Promise<'waits' | 'goes on' | 'done'> {
    if (this.failure) throw this.failure.error;
    if (!this.found) return 'waits';
    const { loop, place } = this.found;
    if ((await loop.round()).isMore || (await loop.takeNamed())) return 'goes on';
    if (!loop.isInformed) return 'waits';
    // The serving loop first reads all that the new one has read, at no earlier time, so that no change is lost.
    if (!(await running.catchUp(loop))) return 'goes on';
    failpoint('live_build');
    const done = await loop.takeOver(running, place);
    failpoint('live_build');
    return done ? 'done' : 'goes on';
  }

  /** The loop that has taken over. It still has to evaluate members without kept facts, or everybody after a stale state. */
  next(): Computing {
    if (!this.found) throw new Error('Nothing is built yet.');
    const { loop, place, silent } = this.found;
    const all = place.computations.keys();
    return {
      loop,
      background: this.isStale ? new Sweep(place, silent, 'everybody', all) : new Sweep(place, silent, 'strays'),
    };
  }

  async stop(): Promise<void> {
    this.stopping.abort();
    await this.building;
  }

  private async build(): Promise<void> {
    const { store, clock, log } = this.parts;
    const { source, fence, asked, computations, config } = this.whole;
    const signal = AbortSignal.any([this.parts.signal, this.stopping.signal]);
    const files = filesOf(config().eventLog ?? null);
    const { keys } = this;
    const own = new Map([...computations].filter(([key]) => keys.has(key)));
    const parts = { store, clock, log, files, source, computations: own, background: true, fence, signal };
    const state = await build(parts, asked);
    const silent = new Set(keys);
    const place = { ...this.whole, state, silent, isStale: false };
    // Its steps repeat those of the serving loop, so they are not reported.
    const loop = new Loop({ ...this.parts, onStep: () => {} }, { ...place, computations: own });
    await loop.load();
    this.found = { loop, place, silent };
  }
}
