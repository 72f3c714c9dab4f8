import type { Engine } from '../port.ts';

/** Work on one file: many at once, or one alone, in the order in which they came. */
class Turns {
  private readonly waiting: { readonly alone: boolean; readonly begin: () => void }[] = [];
  private working = 0;
  private isAlone = false;

  async take<T>(alone: boolean, work: () => Promise<T>): Promise<T> {
    await new Promise<void>((begin) => {
      this.waiting.push({ alone, begin });
      this.next();
    });
    try {
      return await work();
    } finally {
      this.working -= 1;
      this.isAlone = false;
      this.next();
    }
  }

  private next(): void {
    for (;;) {
      const first = this.waiting[0];
      if (!first || this.isAlone || (first.alone && this.working > 0)) return;
      this.waiting.shift();
      this.working += 1;
      this.isAlone = first.alone;
      first.begin();
    }
  }
}

/** One for each file of the configuration. */
const files = new Map<string, Turns>();

export function turnsOf(path: string): Turns {
  const turns = files.get(path) ?? new Turns();
  files.set(path, turns);
  return turns;
}

/**
 * Sessions of one process on one file may work on different keys at once; what touches the rows of others waits until it
 * is alone, because DuckDB would have one of two that write the same rows fail, and a scrub wants the file for itself.
 * Other processes are kept out by DuckDB's own lock.
 */
export function inTurns(engine: Engine, path: string): Engine {
  const turns = turnsOf(path);
  return {
    ...engine,
    stage: (request) => turns.take(false, () => engine.stage(request)),
    preview: (request, sampleSize) => turns.take(false, () => engine.preview(request, sampleSize)),
    commit: (plan) => turns.take(false, () => engine.commit(plan)),
    cut: (plan, after) => turns.take(false, () => engine.cut(plan, after)),
    discard: (plan) => turns.take(false, () => engine.discard(plan)),
    drop: (key) => turns.take(false, () => engine.drop(key)),
    // Two of them would delete the same rows; runs don't mind.
    prune: (before) => turns.take(false, () => turnsOf(`${path}: history`).take(true, () => engine.prune(before))),
    forget: (users, keys) => turns.take(true, () => engine.forget(users, keys)),
    scrub: (scope) => turns.take(true, () => engine.scrub(scope)),
  };
}
