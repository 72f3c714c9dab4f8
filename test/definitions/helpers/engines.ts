import type { Test } from 'tap';
import { duckdbDialect } from '../../../jobs/engines/duckdb/dialect.ts';
import { openSession as openDuckdb } from '../../../jobs/engines/duckdb/session.ts';
import { postgresDialect } from '../../../jobs/engines/postgres/dialect.ts';
import { openSession as openPostgres } from '../../../jobs/engines/postgres/session.ts';
import { describe } from '../../../jobs/engines/sql/describe.ts';
import { foldedValues, literal, type SqlDialect } from '../../../jobs/engines/sql/plan-query.ts';
import type { SqlSession } from '../../../jobs/engines/sql/session.ts';
import { readStatement } from '../../../jobs/engines/sql/statement.ts';
import { tablesOf, withoutMissing } from '../../../jobs/engines/sql/tables.ts';
import { systemClock } from '../../../src/kernel/clock.ts';
import { DUCKDB_VIEWS, eventViews, POSTGRES_VIEWS, withLikelyAt } from '../../../src/store/events/views.ts';
import { startFastPostgres } from '../../helpers/postgres.ts';
import type { Commit } from './arbitrary.ts';
import type { LoggedEvent } from './event.ts';

/** A database with the views of the event log over a table that a test fills. */
export interface LogEngine {
  readonly type: 'duckdb' | 'postgres';
  /** Replaces all events. */
  fill(events: readonly LoggedEvent[]): Promise<void>;
  /** Replaces the values of a trait that its last sync committed; null for a trait that was never synced. */
  commit(key: string, values: Commit | null): Promise<void>;
  /** The result of a definition: each user's value, null for an audience. */
  result(kind: 'audience' | 'trait', sql: string, now: number): Promise<Readonly<Record<string, unknown>>>;
  readonly session: SqlSession;
  /** The prefix of its views' names. */
  readonly prefix: string;
}

export async function openEngines(t: Test): Promise<readonly LogEngine[]> {
  const server = await startFastPostgres();
  const duckdb = await openDuckdb({
    path: ':memory:',
    readOnly: false,
    settings: { threads: '1' },
    patience: 0,
    clock: systemClock,
  });
  const postgres = await openPostgres(await server.database());
  t.teardown(async () => {
    await Promise.all([duckdb.close(), postgres.close()]);
    await server.stop();
  });
  return [
    await logEngine('duckdb', duckdb, duckdbDialect, { text: 'VARCHAR', json: 'JSON', prefix: 'rollcall_' }),
    await logEngine('postgres', postgres, postgresDialect, { text: 'text', json: 'jsonb', prefix: 'rollcall_events.' }),
  ];
}

interface Types {
  readonly text: string;
  readonly json: string;
  /** Of the names of the views. */
  readonly prefix: string;
}

/** Longer than any history of the tests. */
const KEEP = 73_000 * 86_400_000;

async function logEngine(
  type: LogEngine['type'],
  session: SqlSession,
  dialect: SqlDialect,
  { text, json, prefix }: Types,
): Promise<LogEngine> {
  if (type === 'postgres') await session.run('CREATE SCHEMA rollcall_events');
  const columns = ['message_id', 'type', 'event', 'name', 'user_id', 'anonymous_id', 'previous_id'];
  const times = ['"timestamp"', 'received_at'];
  const parts = ['properties', 'traits', 'context'];
  await session.run(
    `CREATE TABLE ${prefix}logged (${[
      ...columns.map((name) => `${name} ${text}`),
      ...times.map((name) => `${name} TIMESTAMP`),
      ...parts.map((name) => `${name} ${json}`),
      'day DATE',
    ].join(', ')})`,
  );
  await session.run(`CREATE VIEW ${prefix}events AS SELECT * FROM ${withLikelyAt(`${prefix}logged`, KEEP)}`);
  const views = eventViews(type === 'duckdb' ? DUCKDB_VIEWS : POSTGRES_VIEWS);
  for (const view of views) {
    await session.run(`CREATE VIEW ${prefix}${view.name} AS ${view.query((name) => `${prefix}${name}`)}`);
  }
  return {
    type,
    session,
    prefix,
    async fill(events) {
      await session.run(`DELETE FROM ${prefix}logged`);
      if (events.length === 0) return;
      const rows = events.map(rowOf);
      const quoted = (value: string | null) => (value === null ? 'NULL' : `'${value.replaceAll("'", "''")}'`);
      await session.run(
        `INSERT INTO ${prefix}logged VALUES ${rows.map((row) => `(${row.map(quoted).join(', ')})`).join(',\n')}`,
      );
    },
    commit: (key, values) => commit(session, key, values),
    result: (kind, sql, now) => resultOf(session, dialect, kind, sql, now),
  };
}

/** Replaces the values of a trait as a sync would. */
export async function commit(session: SqlSession, key: string, values: Commit | null): Promise<void> {
  const table = tablesOf({}).members(key);
  await session.run('CREATE SCHEMA IF NOT EXISTS rollcall');
  await session.run(`DROP TABLE IF EXISTS ${table}`);
  if (values === null) return;
  await session.run(`CREATE TABLE ${table} (user_id varchar, value varchar, since bigint)`);
  const rows = Object.entries(values).map(
    ([user, value]) => `(${literal(user)}, ${literal(JSON.stringify(value))}, 1)`,
  );
  if (rows.length > 0) await session.run(`INSERT INTO ${table} VALUES ${rows.join(', ')}`);
}

/** The result of a definition in this session: each user's value, null for an audience. */
export async function resultOf(
  session: SqlSession,
  dialect: SqlDialect,
  kind: 'audience' | 'trait',
  sql: string,
  now: number,
): Promise<Readonly<Record<string, unknown>>> {
  const statement = readStatement(await withoutMissing(session, sql), now);
  const columns = await session.columns(`SELECT * FROM (\n${statement}\n) AS definition LIMIT 0`);
  const { fresh } = describe({ key: 'x', kind, sql, asOf: now }, statement, columns, dialect);
  // An audience's rows are counted by its plan.
  const folded =
    kind === 'trait'
      ? foldedValues(fresh.rows, kind, dialect)
      : `SELECT id, NULL AS value, count(*) AS rows FROM (${fresh.rows}) AS ids GROUP BY id`;
  const rows = await session.rows(`SELECT id, value, rows FROM (${folded}) AS fresh`);
  const isTooLong = (value: unknown) => String(value).length > 250_000;
  const wrong = rows.filter(([id, value, count]) => (id === null ? !isTooLong(value) : Number(count) !== 1));
  if (wrong.length > 0) throw new Error(`Rows without an id, or twice: ${JSON.stringify(wrong, String)}`);
  const known = rows.filter(([id]) => id !== null);
  return Object.fromEntries(known.map(([id, value]) => [id, value === null ? null : JSON.parse(String(value)).x]));
}

function rowOf(event: LoggedEvent): readonly (string | null)[] {
  const time = (at: number) => new Date(at).toISOString().replace('T', ' ').replace('Z', '');
  const json = (value: object | null) => (value === null ? null : JSON.stringify(value));
  const { messageId, type, userId, anonymousId, previousId, timestamp, receivedAt } = event;
  return [
    ...[messageId, type, type === 'track' ? event.event : null, type === 'track' ? null : event.event],
    ...[userId, anonymousId, previousId],
    ...[time(timestamp), time(receivedAt)],
    ...[json(event.properties), json(event.traits), json(event.context)],
    time(receivedAt).slice(0, 10),
  ];
}
