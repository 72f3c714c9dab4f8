import { existsSync, renameSync } from 'node:fs';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import type { Clock } from '../clock.ts';
import { RollcallError } from '../errors.ts';
import { seenKey } from './postgres/accept.ts';
import { hash, int2, int4, int8, text, uuid } from './postgres/arrays.ts';
import { Database, type Session } from './postgres/database.ts';
import { migratePostgres } from './postgres/migrate.ts';

/** Rows that were moved, by table. */
export type Moved = Readonly<Record<string, number>>;

type Row = readonly SQLInputValue[];
type Type = 'text' | 'int8' | 'int4' | 'int2' | 'hash';

interface Table {
  readonly name: string;
  readonly columns: Readonly<Record<string, Type>>;
  /** A query of SQLite for the columns, in their order. */
  readonly from: string;
}

const SQL_TYPES: Readonly<Record<Type, string>> = {
  text: 'text',
  int8: 'bigint',
  int4: 'int',
  int2: 'smallint',
  hash: 'bytea',
};
const BATCH = 2_000;
const nameOf = (column: string) => `(SELECT value FROM name WHERE id = ${column})`;

/** A claim that a newer change waits for is over with; all else is ready. */
const IS_REPLACED = `EXISTS (SELECT 1 FROM delivery w WHERE w.conflict = d.conflict AND w.destination = d.destination
  AND w.state = 2 AND w.id <> d.id)`;

const TABLES: readonly Table[] = [
  {
    name: 'delivery',
    columns: {
      ...{
        id: 'int8',
        due_at: 'int8',
        accepted_at: 'int8',
        first_at: 'int8',
        tries: 'int4',
        turn: 'int2',
        state: 'int2',
      },
      ...{ type: 'int2', destination: 'text', source: 'text', message_id: 'text', user_id: 'text', run: 'text' },
      ...{ conflict: 'text', marks: 'text', body: 'text' },
    },
    from: `SELECT id, due_at, accepted_at, first_at, tries, lane + 3 * (tries > 0), 0, type, ${nameOf('destination')},
      ${nameOf('source')}, message_id, user_id, ${nameOf('run')}, conflict, marks, body FROM delivery d
      WHERE state <> 1 OR conflict IS NULL OR NOT ${IS_REPLACED}`,
  },
  {
    name: 'dead_letter',
    columns: {
      ...{ id: 'int8', first_at: 'int8', last_at: 'int8', tries: 'int4', status: 'int4', lane: 'int2', type: 'int2' },
      ...{ destination: 'text', source: 'text', message_id: 'text', user_id: 'text', run: 'text', conflict: 'text' },
      ...{ reason: 'text', body: 'text' },
    },
    from: `SELECT id, first_at, last_at, tries, status, lane, type, ${nameOf('destination')}, ${nameOf('source')},
      message_id, user_id, ${nameOf('run')}, conflict, reason, body FROM dead_letter`,
  },
  {
    name: 'attempt',
    columns: {
      ...{ id: 'int8', at: 'int8', delivery: 'int8', status: 'int4', ms: 'int4', type: 'int2', outcome: 'int2' },
      ...{ destination: 'text', endpoint: 'text', source: 'text', message_id: 'text', user_id: 'text' },
      ...{ error: 'text', response: 'text' },
    },
    from: `SELECT id, at, delivery, status, ms, type, outcome, ${nameOf('destination')}, ${nameOf('endpoint')},
      ${nameOf('source')}, message_id, user_id, error, response FROM attempt`,
  },
  {
    name: 'endpoint',
    columns: { endpoint: 'text', destination: 'text', paused_at: 'int8', dead_since: 'int8' },
    from: `SELECT ${nameOf('endpoint.id')}, ${nameOf('destination')}, paused_at, dead_since FROM endpoint`,
  },
  {
    name: 'lease',
    columns: { name: 'text', token: 'int8', lease_until: 'int8' },
    from: 'SELECT name, token, 0 FROM lease',
  },
  { name: 'audience', columns: { key: 'text', record: 'text' }, from: 'SELECT key, record FROM audience' },
  {
    name: 'run',
    columns: {
      ...{ id: 'text', key: 'text', state: 'text', started_at: 'int8', cursor: 'text', sent: 'int8', record: 'text' },
    },
    from: `SELECT ${nameOf('run.id')}, key, state, record ->> 'startedAt', cursor, sent, record FROM run`,
  },
  {
    name: 'run_progress',
    columns: {
      ...{ run: 'text', part: 'int2', deliveries: 'int8', untried: 'int8', delivered: 'int8', dead: 'int8' },
      superseded: 'int8',
    },
    // Claims that are over with count as superseded.
    from: `SELECT ${nameOf('r.id')}, 0, deliveries, r.untried - coalesce(o.untried, 0), delivered, dead,
      superseded + coalesce(o.count, 0) FROM run r LEFT JOIN (
        SELECT run, count(*) AS count, sum(tries = 0) AS untried FROM delivery d
        WHERE state = 1 AND conflict IS NOT NULL AND ${IS_REPLACED} GROUP BY run) o ON o.run = r.id`,
  },
  {
    name: 'regulation',
    columns: { id: 'text', status: 'text', created_at: 'int8', record: 'text' },
    from: 'SELECT id, status, created_at, record FROM regulation',
  },
  { name: 'suppression', columns: { hash: 'hash' }, from: 'SELECT hash FROM suppression' },
];

/**
 * Moves a SQLite store into an empty Postgres one, all of it or nothing, and then puts the file aside as `….moved`, so that nothing is sent twice.
 * Delivery ids (the Idempotency-Keys), dedupe state, runs and their cursors, snapshot versions and fences stay as they are.
 *
 * @param from - `sqlite:` with an absolute path
 * @param to - `postgres://…`; its tables are made if need be
 * @throws RollcallError `bad_usage` when the one is still in use or the other is not empty; `store_failed`
 */
export async function moveStore(from: string, to: string, clock: Clock): Promise<Moved> {
  const path = from.replace(/^sqlite:/, '');
  if (path === from || !/^postgres(ql)?:/.test(to)) {
    throw new RollcallError('bad_usage', 'A store moves from sqlite:… to postgres://… only.');
  }
  if (!existsSync(path)) throw new RollcallError('bad_usage', `There is no file ${path}.`);
  await migratePostgres(to);
  const db = new Database({ url: to, clock });
  const source = new DatabaseSync(path, { timeout: 5_000 });
  try {
    // Whoever holds the write lock is the only one to change anything.
    source.exec('BEGIN IMMEDIATE');
    refuseIfInUse(source, clock.now());
    const moved = await db.transaction((session) => copyAll(source, session, clock.now()));
    source.exec('COMMIT');
    source.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    source.close();
    renameSync(path, `${path}.moved`);
    return moved;
  } finally {
    if (source.isOpen) source.close();
    await db.close();
  }
}

function refuseIfInUse(source: DatabaseSync, now: number): void {
  const inUse = source
    .prepare('SELECT pid FROM owner WHERE lease_until > ? UNION SELECT pid FROM lease WHERE lease_until > ?')
    .all(now, now)
    .some(({ pid }) => isAlive(Number(pid)));
  if (inUse) throw new RollcallError('bad_usage', 'A process still works with the SQLite store: stop it first.');
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

async function copyAll(source: DatabaseSync, session: Session, now: number): Promise<Moved> {
  await refuseUnlessEmpty(session);
  const moved: Record<string, number> = {};
  for (const table of TABLES) moved[table.name] = await copy(source, session, table);
  moved['seen'] = await copySeen(source, session, now);
  for (const key of ['store', 'suppression_key']) {
    const value = source.prepare('SELECT value FROM meta WHERE key = ?').get(key)?.['value'];
    await session.run('UPDATE rollcall.meta SET value = $2 WHERE key = $1', [key, value]);
  }
  await session.run(
    `INSERT INTO rollcall.backlog SELECT destination, 0, sum(pending), sum(dead) FROM (
       SELECT destination, 1 AS pending, 0 AS dead FROM rollcall.delivery
       UNION ALL SELECT destination, 0, 1 FROM rollcall.dead_letter) AS each GROUP BY destination`,
  );
  await continueIds(source, session);
  return moved;
}

async function refuseUnlessEmpty(session: Session): Promise<void> {
  const used = ['delivery', 'dead_letter', 'seen', 'run', 'audience', 'attempt', 'lease']
    .map((table) => `EXISTS (SELECT 1 FROM rollcall.${table})`)
    .join(' OR ');
  const [row] = await session.rows<[boolean]>(`SELECT ${used}`);
  if (row?.[0]) throw new RollcallError('bad_usage', 'The Postgres store is not empty; it has been in use already.');
}

async function copy(source: DatabaseSync, session: Session, { name, columns, from }: Table): Promise<number> {
  const types = Object.values(columns);
  const casts = types.map((type, index) => `$${index + 1}::${SQL_TYPES[type]}[]`).join(', ');
  const insert = `INSERT INTO rollcall.${name} (${Object.keys(columns).join(', ')}) SELECT * FROM unnest(${casts})`;
  let count = 0;
  for (const rows of batches(source, from)) {
    await session.run(
      insert,
      types.map((type, index) => ENCODERS[type](rows.map((row) => row[index] ?? null))),
    );
    count += rows.length;
  }
  return count;
}

const numbers = (values: readonly SQLInputValue[]) => values.map((value) => (value === null ? null : Number(value)));

const ENCODERS: Readonly<Record<Type, (values: readonly SQLInputValue[]) => Buffer>> = {
  text: (values) => text(values.map((value) => (value === null ? null : String(value)))),
  int8: (values) => int8(numbers(values)),
  int4: (values) => int4(numbers(values)),
  int2: (values) => int2(numbers(values)),
  hash: (values) => hash(values.map((value) => Buffer.from(value as Uint8Array))),
};

/** Message ids get another full day or two. */
async function copySeen(source: DatabaseSync, session: Session, now: number): Promise<number> {
  let count = 0;
  const both = [0, 1].map((n) => `SELECT ${nameOf('source')}, message_id FROM seen_${n}`).join(' UNION ');
  for (const rows of batches(source, both)) {
    const keys = rows.map(([name, messageId]) => seenKey({ source: String(name), messageId: String(messageId) }));
    const sql = 'INSERT INTO rollcall.seen SELECT k, $2 FROM unnest($1::uuid[]) AS k';
    await session.run(sql, [uuid(keys), Math.floor(now / 86_400_000)]);
    count += rows.length;
  }
  return count;
}

/** No id that was ever given out comes again. */
async function continueIds(source: DatabaseSync, session: Session): Promise<void> {
  const highest = {
    delivery: "SELECT max(seq) AS id FROM sqlite_sequence WHERE name = 'delivery'",
    attempt: 'SELECT max(id) AS id FROM attempt',
  };
  for (const [table, sql] of Object.entries(highest)) {
    const id = Number(source.prepare(sql).get()?.['id'] ?? 0);
    if (id > 0) await session.run(`SELECT setval(pg_get_serial_sequence('rollcall.${table}', 'id'), $1)`, [id]);
  }
}

function* batches(source: DatabaseSync, sql: string): Generator<Row[]> {
  const statement = source.prepare(sql);
  statement.setReturnArrays(true);
  let rows: Row[] = [];
  for (const row of statement.iterate()) {
    rows.push(row as unknown as Row);
    if (rows.length < BATCH) continue;
    yield rows;
    rows = [];
  }
  if (rows.length > 0) yield rows;
}
