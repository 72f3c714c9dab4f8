import { closeSync, fdatasync, openSync } from 'node:fs';
import { promisify } from 'node:util';

const syncData = promisify(fdatasync);

/**
 * The file that SQLite appends its commits to, which is synced from outside: SQLite's own thread would stand still meanwhile.
 * A sync makes durable whatever was committed before it began, as SQLite recovers commits in order up to the first that is torn.
 */
export class WriteAheadLog {
  private readonly path: string;
  private file: number | null = null;

  /** @param path - of the database */
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
