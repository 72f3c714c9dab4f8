import { statSync } from 'node:fs';
import { RollcallError } from '../../kernel/errors.ts';

/**
 * The files that SQLite has open. It goes on writing to them after they were removed, moved or replaced, and what it
 * writes is lost at its end.
 */
export class OpenFiles {
  private readonly path: string;
  private readonly known: ReadonlyMap<string, string | null | undefined>;

  constructor(path: string) {
    this.path = path;
    const names = path === ':memory:' ? [] : [path, `${path}-wal`, `${path}-shm`];
    this.known = new Map(names.map((name) => [name, identityOf(name)]));
  }

  /** Return the error for files that are gone or others by now; null if all are in place. */
  lost(): RollcallError | null {
    for (const [name, known] of this.known) {
      const found = identityOf(name);
      if (found === known || found === undefined || known === undefined) continue;
      const what = found === null ? 'was removed or moved' : 'is another file now';
      return new RollcallError(
        'store_missing',
        `The store ${this.path} is lost: ${name} ${what} while it was in use. Put the file back, or the newest backup (docs/deployment.md#a-lost-store).`,
      );
    }
    return null;
  }
}

/** Device and inode; null if there is no file, undefined if that can't be said now. */
function identityOf(path: string): string | null | undefined {
  try {
    const found = statSync(path, { bigint: true, throwIfNoEntry: false });
    return found ? `${found.dev}:${found.ino}` : null;
  } catch {
    return undefined;
  }
}
