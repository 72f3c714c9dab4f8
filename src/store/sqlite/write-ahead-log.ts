import { closeSync, fdatasync, openSync } from 'node:fs';
import { promisify } from 'node:util';

const syncData = promisify(fdatasync);

/**
 * The file to which SQLite appends its commits, synced from outside, as SQLite would block its own thread. A sync makes
 * all commits before it durable, as SQLite recovers commits in order up to the first torn one.
 */
export class WriteAheadLog {
  private file: number | null;

  /** Opens the file at once: later there may be no file descriptor left. */
  constructor(path: string) {
    this.file = path === ':memory:' || path === '' ? null : openSync(`${path}-wal`, 'r');
  }

  async sync(): Promise<void> {
    if (this.file !== null) await syncData(this.file);
  }

  close(): void {
    if (this.file !== null) closeSync(this.file);
    this.file = null;
  }
}
