import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { makePrivate } from './private-file.ts';

const SCHEMA = `
  create table if not exists request (
    key text primary key,
    state text not null check (state in ('running', 'stored', 'done', 'failed')),
    at integer not null,
    holder text, until integer,
    seq integer, body blob, url text, secret integer, scope text, user text,
    tries integer not null default 0, crashes integer not null default 0, begun integer not null default 0,
    due integer not null default 0, reason text
  ) strict;
  create index if not exists request_at on request (state, at);
  create index if not exists request_state on request (state, seq);
  create index if not exists request_seq on request (seq);
  create index if not exists request_user on request (state, user, seq);
  create table if not exists owner (
    only integer primary key check (only = 1), name text not null, until integer not null, locked integer not null
  ) strict;
  create table if not exists change (
    name text primary key,
    sequence integer not null,
    holder text, until integer
  ) strict;
`;

/** The file, with its tables and prepared statements. */
export class SqliteFile {
  readonly db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  constructor(path: string) {
    // A wait for a lock stops the event loop, so it is short; then the answer is 503 and the sender comes again.
    this.db = new DatabaseSync(path, { timeout: 200 });
    this.db.exec('pragma journal_mode = wal; pragma synchronous = full;');
    this.db.exec(SCHEMA);
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
