import { existsSync, renameSync, rmSync } from 'node:fs';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import type { Clock } from '../../kernel/clock.ts';
import { RollcallError } from '../../kernel/errors.ts';
import type { StoreTime } from '../port.ts';
import { hash, int2, int4, int8, text, uuid } from '../postgres/arrays.ts';
import { Database, type DatabaseSession } from '../postgres/database.ts';
import { migratePostgres } from '../postgres/migrate.ts';
import { remember } from '../postgres/queue/seen.ts';
import { storeError } from '../sqlite/connection.ts';
import { linked, markerOf, movedTo } from '../sqlite/files.ts';
import { KEY_BYTES } from '../sqlite/queue/seen-keys.ts';
import { openSqliteStore } from '../sqlite/store.ts';
import { type MovedTable, TABLES, type Type } from './move-tables.ts';

type CopyProgress = (table: string, done: number, total: number) => void;

interface MoveOptions {
  /** `sqlite:` with an absolute path. */
  readonly from: string;
  /** `postgres://…`; its tables are created if needed. */
  readonly to: string;
  readonly clock: Clock;
  readonly withoutEventLog?: boolean;
  /** Called with the number of rows of a table that are done, and their total. */
  readonly onProgress?: CopyProgress;
}

interface Moved {
  /** The new path of the SQLite file. */
  readonly file: string;
  /** Number of rows moved, by table; null if an earlier move had already done that. */
  readonly rows: Readonly<Record<string, number>> | null;
}

type MovedRow = readonly SQLInputValue[];
const BATCH = 2_000;

/**
 * Move a SQLite store into an empty Postgres one, all of it or nothing. Then rename the file to `….moved`, so that
 * nothing is sent twice. Delivery ids (the Idempotency-Keys), dedupe state, runs and their cursors, snapshot versions
 * and fences stay as they are. After an interruption it can be repeated.
 *
 * @throws RollcallError `bad_usage` if the source is in use or the target is not empty; `event_log_stays`,
 *   `store_failed`
 */
export async function moveStore({
  from,
  to,
  clock,
  withoutEventLog = false,
  onProgress = () => {},
}: MoveOptions): Promise<Moved> {
  const given = from.replace(/^sqlite:/, '');
  const path = linked(given);
  if (given === from || path === ':memory:' || !/^postgres(ql)?:/.test(to)) {
    throw new RollcallError('bad_usage', 'A store can only move from sqlite:… to postgres://….');
  }
  const file = movedTo(path);
  if (existsSync(file)) throw new RollcallError('bad_usage', `The store was moved before: ${file} exists.`);
  if (!existsSync(path)) throw new RollcallError('bad_usage', `There is no file ${path}.`);
  // Migrates its tables to this version.
  const store = await openSqliteStore({ path, maxQueued: 0, clock });
  const { time } = store;
  await store.close();
  await migratePostgres(to);
  const db = new Database({ url: to, clock });
  const source = new DatabaseSync(path, { timeout: 1_000 });
  try {
    lock(source);
    if (!withoutEventLog) refuseEventLog(source);
    const rows = await db.transaction((session) => copyAll({ source, session, now: db.now, time, onProgress }));
    source.exec('COMMIT');
    // Leaves one file without a log; renamed before anybody else can open it.
    source.exec('PRAGMA journal_mode = DELETE');
    // In this order: next to the marker, the moved file would be that of an older store.
    rmSync(markerOf(path), { force: true });
    renameSync(path, file);
    return { file, rows };
  } catch (error) {
    throw storeError(error);
  } finally {
    source.close();
    await db.close();
  }
}

/** Refuse while any process has the file open, even a suspended one: it would go on with it when it resumes. */
export function lock(source: DatabaseSync): void {
  try {
    source.exec('PRAGMA locking_mode = EXCLUSIVE');
    source.exec('BEGIN IMMEDIATE');
  } catch (error) {
    if (storeError(error).code !== 'store_busy') throw error;
    throw new RollcallError('bad_usage', 'A process still has the SQLite store open. Stop it first.', { cause: error });
  }
}

interface Move {
  readonly source: DatabaseSync;
  readonly session: DatabaseSession;
  /** SQL for the time of the target. */
  readonly now: string;
  /** The time of the source. */
  readonly time: StoreTime;
  readonly onProgress: CopyProgress;
}

async function copyAll(move: Move): Promise<Moved['rows']> {
  const { source, session } = move;
  // A long query of the source must not end the target's transaction.
  await session.run('SET LOCAL idle_in_transaction_session_timeout = 0');
  const state = stateOf(source);
  if (await isMovedAlready(source, session, state)) return null;
  await refuseUnlessEmpty(session);
  // A service that was started there without accepting anything leaves these rows.
  for (const table of ['configuration', 'orphan', 'lease', 'rollup'])
    await session.run(`DELETE FROM rollcall.${table}`);
  const rows: Record<string, number> = {};
  for (const table of TABLES) rows[table.name] = await copy(move, table);
  rows['seen'] = await copySeen(move);
  for (const key of ['store', 'suppression_key', 'generation', 'deletion_epoch']) {
    await session.run('UPDATE rollcall.meta SET value = $2 WHERE key = $1', [key, metaOf(source, key)]);
  }
  await session.run("INSERT INTO rollcall.meta VALUES ('moved_from', $1)", [state]);
  await continueIds(source, session);
  return rows;
}

/** Refuse a store with an event log: a move must not leave events behind silently. */
function refuseEventLog(source: DatabaseSync): void {
  const logged = 'SELECT EXISTS (SELECT 1 FROM event_file) OR EXISTS (SELECT 1 FROM event_tail) AS yes';
  if (source.prepare(logged).get()?.['yes'] !== 1) return;
  throw new RollcallError(
    'event_log_stays',
    'The SQLite store has an event log, in files that do not move to Postgres. To move everything else, add --without-event-log: the files stay where they are, and audiences over the log start from nothing there.',
  );
}

const metaOf = (source: DatabaseSync, key: string) =>
  String(source.prepare('SELECT value FROM meta WHERE key = ?').get(key)?.['value']);

/** Return a state that changes when a process starts delivering from the file, or data is accepted, sent or dropped. */
function stateOf(source: DatabaseSync): string {
  const counters = `SELECT group_concat(n, '-') AS state FROM (
    SELECT max(seq) AS n FROM sqlite_sequence GROUP BY name UNION ALL SELECT count(*) FROM delivery
    UNION ALL SELECT count(*) FROM dead_letter UNION ALL SELECT count(*) FROM run)`;
  return String(source.prepare(counters).get()?.['state']);
}

/** True if an earlier move was cut off after its last step in the target, before the file was renamed. */
async function isMovedAlready(source: DatabaseSync, session: DatabaseSession, state: string): Promise<boolean> {
  const rows = await session.rows<[string, string]>('SELECT key, value FROM rollcall.meta');
  const target = new Map(rows);
  if (target.get('store') !== metaOf(source, 'store')) return false;
  if (target.get('moved_from') === state) return true;
  throw new RollcallError(
    'bad_usage',
    'The SQLite store was moved there before, and has been used since. Move it to another, empty database.',
  );
}

async function refuseUnlessEmpty(session: DatabaseSession): Promise<void> {
  const used = ['delivery', 'dead_letter', 'seen', 'run', 'audience', 'attempt']
    .map((table) => `EXISTS (SELECT 1 FROM rollcall.${table})`)
    .join(' OR ');
  const leased = "EXISTS (SELECT 1 FROM rollcall.lease WHERE name NOT IN ('orphans', 'history'))";
  const [row] = await session.rows<[boolean]>(`SELECT ${used} OR ${leased}`);
  if (row?.[0]) throw new RollcallError('bad_usage', 'The Postgres store is not empty; it has been in use already.');
}

async function copy({ source, session, now, time, onProgress }: Move, table: MovedTable): Promise<number> {
  const { name, columns, query } = table;
  const [there] = await session.rows<[number]>(`SELECT ${now}`);
  const ahead = (there?.[0] ?? 0) - time.now();
  const columnOf = (rows: readonly MovedRow[], place: number) => rows.map((row) => row[place] ?? null);
  const casts = columns.map(([, type], place) => `$${place + 1}::${TYPES[type].sql}[]`).join(', ');
  const names = columns.map(([column]) => column).join(', ');
  const insert = `INSERT INTO rollcall.${name} (${names}) SELECT * FROM unnest(${casts})`;
  const total = countOf(source, query);
  let count = 0;
  for (const rows of batches(source, query)) {
    await session.run(
      insert,
      columns.map(([, type], place) => TYPES[type].encode(columnOf(rows, place), ahead)),
    );
    count += rows.length;
    onProgress(name, count, total);
  }
  return count;
}

const texts = (values: readonly SQLInputValue[]) => values.map((value) => (value === null ? null : String(value)));
const numbers = (values: readonly SQLInputValue[]) => values.map((value) => (value === null ? null : Number(value)));

/** @param ahead - milliseconds that the target's time is ahead of the source's */
type Encode = (values: readonly SQLInputValue[], ahead: number) => Buffer;

const TYPES: Readonly<Record<Type, { readonly sql: string; readonly encode: Encode }>> = {
  text: { sql: 'text', encode: (values) => text(texts(values)) },
  name: { sql: 'text', encode: (values) => text(texts(values)) },
  time: {
    sql: 'bigint',
    encode: (values, ahead) => int8(numbers(values).map((value) => (value === null ? null : value + ahead))),
  },
  int8: { sql: 'bigint', encode: (values) => int8(numbers(values)) },
  int4: { sql: 'int', encode: (values) => int4(numbers(values)) },
  int2: { sql: 'smallint', encode: (values) => int2(numbers(values)) },
  hash: { sql: 'bytea', encode: (values) => hash(values.map((value) => Buffer.from(value as Uint8Array))) },
};

/** Copy message ids, which are then remembered for another full day. */
async function copySeen({ source, session, now, onProgress }: Move): Promise<number> {
  const total =
    Number(source.prepare(`SELECT coalesce(sum(length(keys)), 0) AS n FROM (${SEEN})`).get()?.['n']) / KEY_BYTES;
  let count = 0;
  for (const rows of batches(source, SEEN)) {
    const keys = rows.flatMap(([stored]) => digitsOf(stored as Uint8Array));
    await session.run(`WITH ${remember(now, 'SELECT unnest($1::uuid[])')} SELECT 1`, [uuid(keys)]);
    count += keys.length;
    onProgress('seen', count, total);
  }
  return count;
}

/** Hashes of all remembered message ids, many in a row. */
const SEEN = 'SELECT keys FROM seen UNION ALL SELECT keys FROM seen_log';

/** Return the hashes of a row in Postgres's notation. */
function digitsOf(stored: Uint8Array): string[] {
  const digits = Buffer.from(stored).toString('hex');
  return Array.from({ length: stored.length / KEY_BYTES }, (_, at) => digits.slice(32 * at, 32 * (at + 1)));
}

/** Set the sequences so that no id is given out twice. */
async function continueIds(source: DatabaseSync, session: DatabaseSession): Promise<void> {
  const highest = {
    delivery: "SELECT max(seq) AS id FROM sqlite_sequence WHERE name = 'delivery'",
    delivered: 'SELECT max(id) AS id FROM delivered',
    attempt: 'SELECT max(id) AS id FROM attempt',
    discard: 'SELECT max(id) AS id FROM discard',
    audit: 'SELECT max(id) AS id FROM audit',
  };
  for (const [table, sql] of Object.entries(highest)) {
    const id = Number(source.prepare(sql).get()?.['id'] ?? 0);
    if (id > 0) await session.run(`SELECT setval(pg_get_serial_sequence('rollcall.${table}', 'id'), $1)`, [id]);
  }
}

const countOf = (source: DatabaseSync, sql: string) =>
  Number(source.prepare(`SELECT count(*) AS n FROM (${sql})`).get()?.['n']);

function* batches(source: DatabaseSync, sql: string): Generator<MovedRow[]> {
  const statement = source.prepare(sql);
  statement.setReturnArrays(true);
  let rows: MovedRow[] = [];
  for (const row of statement.iterate()) {
    rows.push(row as unknown as MovedRow);
    if (rows.length < BATCH) continue;
    yield rows;
    rows = [];
  }
  if (rows.length > 0) yield rows;
}
