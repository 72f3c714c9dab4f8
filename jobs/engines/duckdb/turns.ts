import type { Engine } from '../port.ts';

/** The last piece of work on each file. */
const last = new Map<string, Promise<unknown>>();

/**
 * Sessions of one process on one file write in turn. DuckDB would have one of two that touch the same rows fail; and a
 * scrub wants the file for itself. Other processes are kept out by DuckDB's own lock.
 */
export function inTurns(engine: Engine, path: string): Engine {
  function turn<T>(work: () => Promise<T>): Promise<T> {
    const done = (last.get(path) ?? Promise.resolve()).then(work, work);
    const settled = done
      .catch(() => undefined)
      .then(() => {
        if (last.get(path) === settled) last.delete(path);
      });
    last.set(path, settled);
    return done;
  }
  return {
    ...engine,
    stage: (request) => turn(() => engine.stage(request)),
    preview: (request, sampleSize) => turn(() => engine.preview(request, sampleSize)),
    commit: (plan) => turn(() => engine.commit(plan)),
    prune: (before) => turn(() => engine.prune(before)),
    discard: (plan) => turn(() => engine.discard(plan)),
    drop: (key) => turn(() => engine.drop(key)),
    forget: (users, keys) => turn(() => engine.forget(users, keys)),
    scrub: (scope) => turn(() => engine.scrub(scope)),
  };
}
