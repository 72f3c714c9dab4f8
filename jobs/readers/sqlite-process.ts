import { existsSync, statSync } from 'node:fs';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import type { ValueList } from './port.ts';
import { packed } from './values.ts';

/*
 * Reads a SQLite file for the process that started this one. SQLite works synchronously and can't be interrupted from
 * another thread: whoever cancels a query ends this process.
 */

/** A query of the starting process, or its demand for the next rows. */
export type SqliteDemand = { readonly path: string; readonly sql: string; readonly timeout: number } | 'next';

export type SqliteAnswer =
  | { readonly named: readonly { readonly name: string; readonly type: string | null }[] }
  | { readonly rows: number; readonly columns: readonly ValueList[]; readonly isLast: boolean }
  | { readonly error: { readonly message: string; readonly errcode?: number | undefined; readonly isStale?: boolean } };

const ROWS = 2_000;
const CHARACTERS = 4_000_000;
/** A file in WAL mode whose folder this user can't write to, and that no process has open. */
const CANT_MAKE_WAL = new Set([14, 264, 776, 1032, 1288, 1544]);

/** The state of a file that was opened as one that nobody writes to. */
let fixed: { readonly path: string; readonly state: string } | null = null;

const stateOf = (path: string) => {
  const { mtimeMs, size, ino } = statSync(path);
  return `${mtimeMs} ${size} ${ino} ${existsSync(`${path}-wal`)}`;
};

function prepare(path: string, sql: string, timeout: number): readonly [DatabaseSync, StatementSync] {
  fixed = null;
  const prepared = (from: string | URL) => {
    const database = new DatabaseSync(from, { readOnly: true, timeout });
    return [database, database.prepare(sql)] as const;
  };
  try {
    return prepared(path);
  } catch (error) {
    const { errcode = 0 } = error as { errcode?: number };
    // The last change may be in a file that is missing or can't be read: then nothing is known to be whole.
    const isWhole = existsSync(path) && ['-wal', '-journal'].every((end) => !existsSync(`${path}${end}`));
    if (!CANT_MAKE_WAL.has(errcode) || !isWhole) throw error;
    fixed = { path, state: stateOf(path) };
    const url = pathToFileURL(path);
    url.searchParams.set('immutable', '1');
    return prepared(url);
  }
}

/** Rows that were read and not yet handed on, by column. */
const taken = { columns: [] as unknown[][], rows: 0, characters: 0 };
let reading: Iterator<unknown> = [].values();

/** Takes a row. Returns 1 once there are many. */
function take(...row: readonly unknown[]): 0 | 1 {
  for (let place = 0; place < row.length; place += 1) {
    const value = row[place];
    taken.columns[place]?.push(value);
    taken.characters += typeof value === 'string' ? value.length : 8;
  }
  taken.rows += 1;
  return taken.rows >= ROWS || taken.characters >= CHARACTERS ? 1 : 0;
}

const takeNothing = (width: number) =>
  Object.assign(taken, { columns: Array.from({ length: width }, () => []), rows: 0, characters: 0 });

/**
 * Begins to read; each step takes many rows. A function that SQL calls costs half of an iterator's step. `LIMIT` keeps
 * SQLite from calling it for rows that are not in the result.
 */
function begin(database: DatabaseSync, statement: StatementSync, sql: string): Iterator<unknown> {
  const names = taken.columns.map((_, place) => `column${place}`).join(', ');
  database.function('rollcall_take', { useBigIntArguments: true, varargs: true }, take);
  try {
    const taking = database.prepare(
      `WITH "rows of rollcall" (${names}) AS (\n${sql}\n)
       SELECT 1 FROM (SELECT * FROM "rows of rollcall" LIMIT -1) WHERE rollcall_take(${names})`,
    );
    return taking.iterate();
  } catch {
    // Not every statement can be part of another, and there may be more columns than arguments.
    return takenOf(statement);
  }
}

function* takenOf(statement: StatementSync) {
  statement.setReturnArrays(true);
  statement.setReadBigInts(true);
  for (const row of statement.iterate()) if (take(...(row as unknown as unknown[])) === 1) yield row;
}

function answer(demand: SqliteDemand): SqliteAnswer {
  try {
    if (demand === 'next') return nextRows();
    const [database, statement] = prepare(demand.path, demand.sql, demand.timeout);
    const named = statement.columns().map(({ name, type }) => ({ name, type }));
    takeNothing(named.length);
    reading = begin(database, statement, demand.sql);
    return { named };
  } catch (error) {
    const { message, errcode } = error as Error & { errcode?: number };
    return { error: { message, errcode } };
  }
}

function nextRows(): SqliteAnswer {
  const isLast = reading.next().done === true;
  if (isLast && fixed && stateOf(fixed.path) !== fixed.state)
    return { error: { message: 'the file was changed', isStale: true } };
  const { rows, columns } = taken;
  takeNothing(columns.length);
  return { rows, columns: columns.map(packed), isLast };
}

process.on('message', (demand: SqliteDemand) => void process.send?.(answer(demand)));
process.on('disconnect', () => process.exit());
