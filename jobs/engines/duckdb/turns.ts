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

  get isIdle(): boolean {
    return this.working === 0 && this.waiting.length === 0;
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

/** By path, of files that are worked on. */
const files = new Map<string, Turns>();

/** Waits for its turn on a file, and then does the work. */
export async function takeTurn<T>(path: string, alone: boolean, work: () => Promise<T>): Promise<T> {
  const turns = files.get(path) ?? new Turns();
  files.set(path, turns);
  try {
    return await turns.take(alone, work);
  } finally {
    if (turns.isIdle) files.delete(path);
  }
}

/**
 * Sessions of one process on one file may work on different keys at once; what touches the rows of others waits until it
 * is alone, because DuckDB would have one of two that write the same rows fail, and a scrub wants the file for itself.
 * Other processes are kept out by DuckDB's own lock.
 */
export function inTurns(engine: Engine, path: string): Engine {
  const beside = <T>(work: () => Promise<T>) => takeTurn(path, false, work);
  const alone = <T>(work: () => Promise<T>) => takeTurn(path, true, work);
  return {
    ...engine,
    stage: (request) => beside(() => engine.stage(request)),
    preview: (request, sampleSize) => beside(() => engine.preview(request, sampleSize)),
    commit: (plan) => beside(() => engine.commit(plan)),
    cut: (plan, after) => beside(() => engine.cut(plan, after)),
    discard: (plan) => beside(() => engine.discard(plan)),
    drop: (key) => beside(() => engine.drop(key)),
    // Two of them would delete the same rows; runs don't mind.
    prune: (before) => beside(() => takeTurn(`${path}: history`, true, () => engine.prune(before))),
    forget: (users, keys) => alone(() => engine.forget(users, keys)),
    scrub: (scope) => alone(() => engine.scrub(scope)),
  };
}
