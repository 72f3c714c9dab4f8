import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { makePrivate } from './private-file.ts';
import { makeTables } from './schema.ts';

/** Milliseconds that the start waits for another process, which may be bringing a large file up to date. */
const START_WAIT = 10_000;
/** A wait for a lock stops the event loop, so it is short; then the answer is 503 and the sender comes again. */
const WAIT = 200;

/** The file, with its tables and prepared statements. */
export class SqliteFile {
  readonly db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  constructor(path: string) {
    this.db = new DatabaseSync(path, { timeout: START_WAIT });
    this.db.exec('pragma journal_mode = wal; pragma synchronous = full;');
    makeTables(this.db);
    this.db.exec(`pragma busy_timeout = ${WAIT}`);
    // It holds what users did.
    if (path !== ':memory:') for (const suffix of ['', '-wal', '-shm']) makePrivate(path + suffix);
  }

  /** Runs a statement; returns how many rows it changed. */
  run(sql: string, ...values: SQLInputValue[]): number {
    return Number(this.#prepared(sql).run(...values).changes);
  }

  row<Row>(sql: string, ...values: SQLInputValue[]): Row | undefined {
    return this.#prepared(sql).get(...values) as Row | undefined;
  }

  rows<Row>(sql: string, ...values: SQLInputValue[]): Row[] {
    return this.#prepared(sql).all(...values) as Row[];
  }

  /** Takes the lock before it reads: what it decides on stays true until it has written. */
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
