import { failpoint } from '../../src/kernel/failpoint.ts';
import type { BackgroundWork, Computing, Loop } from './loop.ts';
import type { LivePlace } from './step.ts';

/** Persons or members evaluated between two steps. */
const PAGE = 500;

/**
 * Makes definitions live: between the steps it evaluates everybody who may be in them, or may have been. Nothing is sent
 * until all have been evaluated. Then a run sends the difference. After a stale state was replaced, it also evaluates
 * everybody by the definitions that are live already, and sends those changes at once.
 */
export class Sweep implements BackgroundWork {
  private readonly place: LivePlace;
  private readonly silent: Set<string>;
  private readonly keys: string[];
  private after: string | null;
  private stray = '';

  /**
   * @param silent - keys of the definitions, shared with the loop's place
   * @param looksAt - all persons with kept facts, or only `strays`, members without any
   * @param keys - definitions whose strays are evaluated
   */
  constructor(place: LivePlace, silent: Set<string>, looksAt: 'everybody' | 'strays', keys: Iterable<string> = silent) {
    this.place = place;
    this.silent = silent;
    this.keys = [...keys];
    this.after = looksAt === 'everybody' ? '' : null;
  }

  async round(loop: Loop): Promise<'waits' | 'goes on' | 'done'> {
    if (!loop.isInformed) return 'waits';
    if (this.after !== null) await this.lookAtPersons(loop, this.after);
    else if (this.keys[0] !== undefined) await this.lookAtStrays(loop, this.keys[0]);
    else {
      await this.record();
      return 'done';
    }
    return 'goes on';
  }

  async stop(): Promise<void> {}

  next(loop: Loop): Computing {
    return { loop, background: null };
  }

  private async lookAtPersons(loop: Loop, after: string): Promise<void> {
    const { store, state } = this.place;
    const persons = await store.live.personsAfter(state, after, PAGE);
    if (await loop.lookAt(persons)) this.after = persons.at(-1) ?? null;
  }

  private async lookAtStrays(loop: Loop, key: string): Promise<void> {
    const { store, state } = this.place;
    const { users, last } = await store.live.strayMembers(state, key, this.stray, PAGE);
    if (!(await loop.lookAt(users))) return;
    this.stray = last ?? '';
    if (last === null) this.keys.shift();
  }

  private async record(): Promise<void> {
    const { store, source, fence, computations, state } = this.place;
    for (const key of [...this.silent]) {
      failpoint('live_build');
      await store.live.addAudience(key, source, computations.get(key)?.hash ?? '', null, fence);
      this.silent.delete(key);
    }
    await store.live.markSeen(state, fence);
  }
}
