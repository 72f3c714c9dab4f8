import { existsSync, statSync } from 'node:fs';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import type { ValueList } from './port.ts';

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

const ROWS = 20_000;
const CHARACTERS = 4_000_000;
/** A file in WAL mode whose folder this user can't write to, and that no process has open. */
const CANT_MAKE_WAL = new Set([14, 264, 776, 1032, 1288, 1544]);

let rows: Iterator<unknown> | null = null;
let width = 0;
/** The state of a file that was opened as one that nobody writes to. */
let fixed: { readonly path: string; readonly state: string } | null = null;

const stateOf = (path: string) => {
  const { mtimeMs, size, ino } = statSync(path);
  return `${mtimeMs} ${size} ${ino} ${existsSync(`${path}-wal`)}`;
};

function prepare(path: string, sql: string, timeout: number): StatementSync {
  fixed = null;
  try {
    return new DatabaseSync(path, { readOnly: true, timeout }).prepare(sql);
  } catch (error) {
    const { errcode = 0 } = error as { errcode?: number };
    // The last change may be in a file that is missing or can't be read: then nothing is known to be whole.
    const isWhole = existsSync(path) && ['-wal', '-journal'].every((end) => !existsSync(`${path}${end}`));
    if (!CANT_MAKE_WAL.has(errcode) || !isWhole) throw error;
    fixed = { path, state: stateOf(path) };
    const url = pathToFileURL(path);
    url.searchParams.set('immutable', '1');
    return new DatabaseSync(url, { readOnly: true }).prepare(sql);
  }
}

function answer(demand: SqliteDemand): SqliteAnswer {
  try {
    if (demand !== 'next') {
      const statement = prepare(demand.path, demand.sql, demand.timeout);
      statement.setReturnArrays(true);
      statement.setReadBigInts(true);
      rows = null;
      iterate = () => statement.iterate() as Iterator<unknown>;
      width = statement.columns().length;
      return { named: statement.columns().map(({ name, type }) => ({ name, type })) };
    }
    rows ??= iterate();
    return nextRows(rows);
  } catch (error) {
    const { message, errcode } = error as Error & { errcode?: number };
    return { error: { message, errcode } };
  }
}

let iterate: () => Iterator<unknown> = () => {
  throw new Error('no query was made');
};

function nextRows(from: Iterator<unknown>): SqliteAnswer {
  const columns: unknown[][] = Array.from({ length: width }, () => []);
  let rows = 0;
  let isLast = false;
  for (let characters = 0; rows < ROWS && characters < CHARACTERS; rows += 1) {
    const { value, done } = from.next();
    if (done) {
      isLast = true;
      break;
    }
    const row = value as readonly unknown[];
    for (let place = 0; place < row.length; place += 1) {
      const each = row[place];
      columns[place]?.push(each);
      characters += typeof each === 'string' ? each.length : 8;
    }
  }
  if (isLast && fixed && stateOf(fixed.path) !== fixed.state)
    return { error: { message: 'the file was changed', isStale: true } };
  return { rows, columns: columns.map(packed), isLast };
}

/** One text is handed on at a fraction of the cost of its parts. */
const packed = (values: readonly unknown[]): ValueList =>
  values.every((value) => typeof value === 'string' && !value.includes('\n')) ? values.join('\n') : values;

process.on('message', (demand: SqliteDemand) => void process.send?.(answer(demand)));
process.on('disconnect', () => process.exit());
