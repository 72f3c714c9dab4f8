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

  constructor(path: string) {
    this.db = new DatabaseSync(path, { timeout: START_WAIT });
    this.db.exec('pragma journal_mode = wal; pragma synchronous = full;');
    makeTables(this.db);
    this.db.exec(`pragma busy_timeout = ${WAIT}`);
    // It holds personal data.
    if (path !== ':memory:') for (const suffix of ['', '-wal', '-shm']) makePrivate(path + suffix);
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

  /** Runs work under the write lock, taken before it reads, so that what it read stays true until it has written. */
  transaction<T>(work: () => T): T {
    this.db.exec('begin immediate');
    try {
      const result = work();
      this.db.exec('commit');
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
