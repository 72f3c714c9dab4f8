import { existsSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { makePrivate } from './private-file.ts';
import { makeTables } from './schema.ts';

/** Milliseconds that the start waits for another process, which may be updating a large file. */
const START_WAIT = 10_000;
/** Waiting for a lock blocks the event loop, so it is short. After that the answer is 503 and the sender retries. */
const WAIT = 200;

/** The database file, with its tables and prepared statements. */
export class SqliteFile {
  readonly db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();
  readonly #path: string;
  readonly #identity: string;

  /** @throws Error if the file is missing, although it kept requests that were acknowledged */
  constructor(path: string) {
    refuseLost(path);
    this.#path = path;
    try {
      this.db = new DatabaseSync(path, { timeout: START_WAIT });
      this.db.exec('pragma journal_mode = wal; pragma synchronous = full;');
      makeTables(this.db);
    } catch (cause) {
      throw new Error(`the store ${path} can't be opened: ${(cause as Error).message}`, { cause });
    }
    this.db.exec(`pragma busy_timeout = ${WAIT}`);
    // It holds personal data.
    if (path !== ':memory:') for (const suffix of ['', '-wal', '-shm']) makePrivate(path + suffix);
    this.#identity = identityOf(path);
  }

  /** Runs a statement. Returns the number of rows it changed. */
  run(sql: string, ...values: SQLInputValue[]): number {
    return Number(this.#prepared(sql).run(...values).changes);
  }

  row<Row>(sql: string, ...values: SQLInputValue[]): Row | undefined {
    return this.#prepared(sql).get(...values) as Row | undefined;
  }

  rows<Row>(sql: string, ...values: SQLInputValue[]): Row[] {
    return this.#prepared(sql).all(...values) as Row[];
  }

  /**
   * Runs work under the write lock, taken before it reads, so that what it read stays true until it has written.
   *
   * @throws Error if the file was removed or replaced: SQLite would go on with the lost one
   */
  transaction<T>(work: () => T): T {
    this.db.exec('begin immediate');
    try {
      const result = work();
      this.db.exec('commit');
      if (identityOf(this.#path) !== this.#identity)
        throw new Error(`the store ${this.#path} was removed or replaced: put its file back, and restart`);
      return result;
    } catch (error) {
      if (this.db.isTransaction) this.db.exec('rollback');
      throw error;
    }
  }

  #prepared(sql: string): StatementSync {
    const statement = this.#statements.get(sql) ?? this.db.prepare(sql);
    this.#statements.set(sql, statement);
    return statement;
  }
}

/** Files that the lock of a kept inbox leaves show that the store was in use. */
function refuseLost(path: string): void {
  if (path === ':memory:' || existsSync(path) || !existsSync(dirname(path))) return;
  const lock = readdirSync(dirname(path)).find((name) => name.startsWith(`${basename(path)}-owner`));
  if (lock === undefined) return;
  throw new Error(
    `the store ${path} is gone, with the requests that it kept; ${lock} is still there. Put the file back, or remove ${lock} to begin with an empty store`,
  );
}

function identityOf(path: string): string {
  const found = path === ':memory:' ? undefined : statSync(path, { bigint: true, throwIfNoEntry: false });
  return found === undefined ? '' : `${found.dev}:${found.ino}`;
}
