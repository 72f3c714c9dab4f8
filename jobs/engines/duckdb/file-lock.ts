import { RollcallError } from '../../../src/kernel/errors.ts';
import type { Engine } from '../port.ts';

type Mode = 'shared' | 'exclusive';

/** A lock within this process, shared by any number of holders or exclusive to one. Served in order of arrival. */
class Lock {
  private readonly waiting: { readonly mode: Mode; readonly begin: () => void }[] = [];
  /** Holders that end once someone waits for it exclusively. */
  private readonly yielding = new Set<AbortController>();
  private holders = 0;
  private isExclusive = false;

  async hold<T>(mode: Mode, work: () => Promise<T>): Promise<T> {
    await new Promise<void>((begin) => {
      this.waiting.push({ mode, begin });
      this.next();
    });
    try {
      return await work();
    } finally {
      this.holders -= 1;
      this.isExclusive = false;
      this.next();
    }
  }

  /** Holds it shared until someone wants it exclusively, which aborts the signal. */
  holdYielding<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const ending = new AbortController();
    return this.hold('shared', () => {
      this.yielding.add(ending);
      this.next();
      return work(ending.signal).finally(() => this.yielding.delete(ending));
    });
  }

  get isIdle(): boolean {
    return this.holders === 0 && this.waiting.length === 0;
  }

  private next(): void {
    for (;;) {
      const first = this.waiting[0];
      if (this.waiting.some(({ mode }) => mode === 'exclusive')) for (const each of this.yielding) each.abort(outrun());
      if (!first || this.isExclusive || (first.mode === 'exclusive' && this.holders > 0)) return;
      this.waiting.shift();
      this.holders += 1;
      this.isExclusive = first.mode === 'exclusive';
      first.begin();
    }
  }
}

function outrun(): RollcallError {
  return new RollcallError(
    'engine_busy',
    'A deletion needed the file of the engine, which ended this query. Try again.',
  );
}

/** Locks of files in use, by path. */
const locks = new Map<string, Lock>();

async function withLockOf<T>(path: string, work: (lock: Lock) => Promise<T>): Promise<T> {
  const lock = locks.get(path) ?? new Lock();
  locks.set(path, lock);
  try {
    return await work(lock);
  } finally {
    if (lock.isIdle) locks.delete(path);
  }
}

export function withLock<T>(path: string, mode: Mode, work: () => Promise<T>): Promise<T> {
  return withLockOf(path, (lock) => lock.hold(mode, work));
}

/**
 * Sessions of one process may work on different keys of a file at once. Work that touches rows of others gets the file
 * exclusively: DuckDB fails one of two writers of the same rows, and a scrub needs the whole file. A preview ends for
 * them: blocks that it still sees can't be overwritten. DuckDB's own lock keeps other processes out.
 */
export function withFileLock(engine: Engine, path: string): Engine {
  const shared = <T>(work: () => Promise<T>) => withLock(path, 'shared', work);
  const exclusive = <T>(work: () => Promise<T>) => withLock(path, 'exclusive', work);
  return {
    ...engine,
    stage: (request) => shared(() => engine.stage(request)),
    preview: ({ signal, ...request }, sampleSize) =>
      withLockOf(path, (lock) =>
        lock.holdYielding((ending) =>
          engine.preview({ ...request, signal: signal ? AbortSignal.any([signal, ending]) : ending }, sampleSize),
        ),
      ),
    commit: (plan) => shared(() => engine.commit(plan)),
    cut: (plan, after) => shared(() => engine.cut(plan, after)),
    discard: (plan) => shared(() => engine.discard(plan)),
    drop: (key) => shared(() => engine.drop(key)),
    // Two prunes would delete the same rows. Runs are not affected.
    prune: (before) => shared(() => withLock(`${path}: history`, 'exclusive', () => engine.prune(before))),
    forget: (users, keys) => exclusive(() => engine.forget(users, keys)),
    writeMoved: (key, moved) => shared(async () => engine.writeMoved?.(key, moved)),
    removeMoved: (key) => shared(async () => engine.removeMoved?.(key)),
    scrub: (scope) => exclusive(() => engine.scrub(scope)),
  };
}
