import { interruptedBy } from '../insist.ts';
import type { Column, SqlDialect } from './plan-query.ts';

export interface SqlSession {
  /** The schema of our tables; `rollcall` unless given. */
  readonly schema?: string | undefined;
  /** Rows as arrays; `texts` is the statement's `$1`, a list of text. */
  rows(sql: string, texts?: readonly string[]): Promise<unknown[][]>;
  /** As `rows`, but by column, which is faster for many rows. */
  byColumn(sql: string): Promise<unknown[][]>;
  /** As `byColumn`, in batches. The session can run nothing else in the meantime. */
  stream(sql: string): AsyncGenerator<unknown[][]>;
  /** Runs a statement; resolves to the number of rows it wrote. */
  run(sql: string): Promise<number>;
  columns(query: string): Promise<readonly Column[]>;
  /** Cancels the running statement; called again while it continues. */
  interrupt(): void;
  close(): Promise<void>;
}

/** The part of an SQL engine that differs between databases. */
export interface SqlDatabase {
  readonly dialect: SqlDialect;
  readonly session: SqlSession;
  /** False if nothing may be written. Plans are temporary tables then. */
  readonly writable: boolean;
  /** The event log, if each session has to create views of it. */
  readonly events?: {
    /** Creates views with these names over the current log. */
    show(views: ReadonlySet<string>): Promise<unknown>;
    /** True if SQL failed because files under the views have been replaced. */
    isReplaced(error: unknown): boolean;
    /** True if SQL failed because one of the views is missing. */
    isLacking(error: unknown): boolean;
  };
  /** The explanation if a definition failed because a file that it reads is empty; null for other failures. */
  emptySource?(error: Error, sql: string): Promise<string | null>;
  /** Statements that make these tables fast, run once they are filled. */
  readonly tuned: {
    plan(table: string): readonly string[];
    members(table: string): readonly string[];
    history(table: string): readonly string[];
  };
  /** Removes what deleted rows left in the database's files; `tables` are those of snapshots and plans. */
  scrub(tables: readonly string[]): Promise<void>;
}

export async function transaction<T>(session: SqlSession, work: () => Promise<T>): Promise<T> {
  await session.run('BEGIN');
  try {
    const result = await work();
    await session.run('COMMIT');
    return result;
  } catch (error) {
    await session.run('ROLLBACK').catch(() => {});
    throw error;
  }
}

/** A session that cancels its statement and starts no other once the signal aborts, for as long as it is open. */
export function cancelledBy<S extends SqlSession>(signal: AbortSignal | undefined, session: S): S {
  if (!signal) return session;
  const until = <T>(work: () => Promise<T>) => interruptedBy(signal, () => session.interrupt(), work);
  return {
    ...session,
    rows: (sql, texts) => until(() => session.rows(sql, texts)),
    byColumn: (sql) => until(() => session.byColumn(sql)),
    run: (sql) => until(() => session.run(sql)),
    columns: (sql) => until(() => session.columns(sql)),
    async *stream(sql) {
      const batches = session.stream(sql);
      try {
        for (;;) {
          const { value, done } = await until(() => batches.next());
          if (done) return;
          yield value;
        }
      } finally {
        await batches.return(undefined);
      }
    },
  };
}

/** Does the work with a session that cancels its statement and starts no other once the signal aborts. */
export function interruptible<T>(
  session: SqlSession,
  signal: AbortSignal | undefined,
  work: (session: SqlSession) => Promise<T>,
): Promise<T> {
  if (!signal) return work(session);
  return interruptedBy(
    signal,
    () => session.interrupt(),
    () => work(obeying(session, signal)),
  );
}

function obeying(session: SqlSession, signal: AbortSignal): SqlSession {
  const unless = <A extends unknown[], R>(statement: (...args: A) => Promise<R>) => {
    return async (...args: A) => {
      signal.throwIfAborted();
      return statement(...args);
    };
  };
  const { rows, byColumn, run, columns } = session;
  return { ...session, rows: unless(rows), byColumn: unless(byColumn), run: unless(run), columns: unless(columns) };
}
