import { interruptedBy } from '../insist.ts';
import type { Column, SqlDialect } from './plan-query.ts';

/** One session of a database. */
export interface SqlSession {
  /** Rows as arrays; `texts` is the statement's `$1`, a list of text. */
  rows(sql: string, texts?: readonly string[]): Promise<unknown[][]>;
  /** As `rows`, by column: the way to read much. */
  byColumn(sql: string): Promise<unknown[][]>;
  /** As `byColumn`, a batch at a time; nothing else may be asked of the session meanwhile. */
  stream(sql: string): AsyncGenerator<unknown[][]>;
  /** Runs a statement; resolves to the number of rows it wrote. */
  run(sql: string): Promise<number>;
  /** The columns that a query would return. */
  columns(query: string): Promise<readonly Column[]>;
  /** Has the statement that is running fail; called again while it goes on. */
  interrupt(): void;
  close(): Promise<void>;
}

/** The part of an SQL engine that differs from the common statements. */
export interface SqlDatabase {
  readonly dialect: SqlDialect;
  readonly session: SqlSession;
  /** False where nothing may be written: plans then are temporary tables. */
  readonly writable: boolean;
  /** The event log, where there is one that has to be shown to each session. */
  readonly events?: {
    /** Shows it as it is now, by views of these names. */
    show(views: ReadonlySet<string>): Promise<void>;
    /** Whether SQL failed because what was shown has been replaced meanwhile. */
    isReplaced(error: unknown): boolean;
    /** Whether SQL failed for want of one of its views. */
    isLacking(error: unknown): boolean;
  };
  /** Why a definition failed for want of rows in a file that it reads; null where it is something else. */
  emptySource?(error: Error, sql: string): Promise<string | null>;
  /** Statements that make these tables fast to use, once they are filled. */
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

/** Does the work with a session that ends what it is doing, and begins nothing new, once the signal aborts. */
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
