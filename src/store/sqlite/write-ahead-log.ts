import { closeSync, fdatasync, openSync } from 'node:fs';
import { promisify } from 'node:util';

const syncData = promisify(fdatasync);

/**
 * The file to which SQLite appends its commits, synced from outside, as SQLite would block its own thread. A sync makes
 * all commits before it durable, as SQLite recovers commits in order up to the first torn one.
 */
export class WriteAheadLog {
  private readonly path: string;
  private file: number | null = null;

  constructor(path: string) {
    this.path = path;
  }

  async sync(): Promise<void> {
    if (this.path === ':memory:' || this.path === '') return;
    this.file ??= openSync(`${this.path}-wal`, 'r');
    await syncData(this.file);
  }

  close(): void {
    if (this.file !== null) closeSync(this.file);
    this.file = null;
  }
}
