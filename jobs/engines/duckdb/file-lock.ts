import type { Engine } from '../port.ts';

type Mode = 'shared' | 'exclusive';

/** A lock within this process, shared by any number of holders or exclusive to one. Served in order of arrival. */
class Lock {
  private readonly waiting: { readonly mode: Mode; readonly begin: () => void }[] = [];
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

  get isIdle(): boolean {
    return this.holders === 0 && this.waiting.length === 0;
  }

  private next(): void {
    for (;;) {
      const first = this.waiting[0];
      if (!first || this.isExclusive || (first.mode === 'exclusive' && this.holders > 0)) return;
      this.waiting.shift();
      this.holders += 1;
      this.isExclusive = first.mode === 'exclusive';
      first.begin();
    }
  }
}

/** Locks of files in use, by path. */
const locks = new Map<string, Lock>();

export async function withLock<T>(path: string, mode: Mode, work: () => Promise<T>): Promise<T> {
  const lock = locks.get(path) ?? new Lock();
  locks.set(path, lock);
  try {
    return await lock.hold(mode, work);
  } finally {
    if (lock.isIdle) locks.delete(path);
  }
}

/**
 * Sessions of one process may work on different keys of a file at once. Work that touches rows of others gets the file
 * exclusively: DuckDB fails one of two writers of the same rows, and a scrub needs the whole file. DuckDB's own lock
 * keeps other processes out.
 */
export function withFileLock(engine: Engine, path: string): Engine {
  const shared = <T>(work: () => Promise<T>) => withLock(path, 'shared', work);
  const exclusive = <T>(work: () => Promise<T>) => withLock(path, 'exclusive', work);
  return {
    ...engine,
    stage: (request) => shared(() => engine.stage(request)),
    preview: (request, sampleSize) => shared(() => engine.preview(request, sampleSize)),
    commit: (plan) => shared(() => engine.commit(plan)),
    cut: (plan, after) => shared(() => engine.cut(plan, after)),
    discard: (plan) => shared(() => engine.discard(plan)),
    drop: (key) => shared(() => engine.drop(key)),
    // Two prunes would delete the same rows. Runs are not affected.
    prune: (before) => shared(() => withLock(`${path}: history`, 'exclusive', () => engine.prune(before))),
    forget: (users, keys) => exclusive(() => engine.forget(users, keys)),
    scrub: (scope) => exclusive(() => engine.scrub(scope)),
  };
}
