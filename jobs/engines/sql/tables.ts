import { createHash } from 'node:crypto';
import type { Snapshot, Staged, StageRequest } from '../port.ts';
import { literal, NO_ROWS } from './plan-query.ts';
import { type SqlDatabase, type SqlSession, transaction } from './session.ts';

export interface SqlTables {
  readonly snapshots: string;
  readonly plans: string;
  /** Past states of members: the versions at which each began and ended, and the time when the latter was computed. */
  readonly history: string;
  /** One row: the store that the snapshots belong to. */
  readonly owner: string;
  /** Keys may be long and differ by case only, which table names may not. */
  members(key: string): string;
  leavers(key: string): string;
  plan(plan: string): string;
  /** The rows of a definition that was read elsewhere. */
  rows(of: string): string;
}

const OWNER = 'snapshot_store';
const SCHEMA = 'rollcall';

export const inSchema = ({ schema = SCHEMA }: Pick<SqlSession, 'schema'>, table: string) => `"${schema}".${table}`;

export function tablesOf(session: Pick<SqlSession, 'schema'>): SqlTables {
  const named = (table: string) => inSchema(session, table);
  return {
    snapshots: named('snapshots'),
    plans: named('plans'),
    history: named('history'),
    owner: named(OWNER),
    members: (key) => named(`members_${suffix(key)}`),
    leavers: (key) => named(`leavers_${suffix(key)}`),
    plan: (plan) => named(`plan_${suffix(plan)}`),
    rows: (of) => named(`rows_${suffix(of)}`),
  };
}

const registryOf = ({ history, snapshots, plans, owner }: SqlTables) => [
  `CREATE TABLE IF NOT EXISTS ${history} (key varchar NOT NULL, user_id varchar NOT NULL, value varchar, since bigint NOT NULL, until bigint NOT NULL, ended_at bigint NOT NULL)`,
  `CREATE TABLE IF NOT EXISTS ${snapshots} (key varchar NOT NULL, version bigint NOT NULL, members bigint NOT NULL)`,
  `CREATE TABLE IF NOT EXISTS ${plans} (plan varchar NOT NULL, key varchar NOT NULL, leased_at bigint NOT NULL, staged varchar NOT NULL)`,
  `CREATE TABLE IF NOT EXISTS ${owner} (id boolean PRIMARY KEY, store varchar NOT NULL)`,
];

/** Marks the snapshots that compiled definitions read, which may not be there yet. */
const MARK = 'AS committed';
const COMMITTED = new RegExp(`"[a-z0-9_]+"\\.(members_[0-9a-f]{16}) ${MARK}`, 'g');

/** A FROM item for the members (user_id, value) of a key as last committed. */
export const committed = (key: string, schema?: string) => `${tablesOf({ schema }).members(key)} ${MARK}`;

/** A definition's SQL without snapshots that are not there: nobody has a value of them. */
export async function withoutMissing(session: SqlSession, sql: string): Promise<string> {
  const missing = new Set<string>();
  for (const [, table = ''] of sql.matchAll(COMMITTED)) if (!(await hasTable(session, table))) missing.add(table);
  return sql.replaceAll(COMMITTED, (all, table) => (missing.has(table) ? `${NO_ROWS} ${MARK}` : all));
}

/** The temporary table of a definition's rows that are compared in parts. */
export const FRESH_TABLE = 'rollcall_fresh';
/** The table that a preview makes of `Funnel.people`. */
export const FUNNEL_TABLE = 'rollcall_funnel';
/** The table of the ids of a preview's sample, for `Funnel.evidence`. */
export const SAMPLE_TABLE = 'rollcall_sample';

export function previewTable(plan: string): string {
  return `preview_${suffix(plan)}`;
}

function suffix(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

export async function readSnapshot(database: SqlDatabase, key: string): Promise<Snapshot> {
  const { session } = database;
  if (!(await isPrepared(database))) return { version: 0, members: 0 };
  const [row] = await session.rows(
    `SELECT version, members FROM ${tablesOf(session).snapshots} WHERE key = ${literal(key)}`,
  );
  return { version: Number(row?.[0] ?? 0), members: Number(row?.[1] ?? 0) };
}

/** Tries to create tables that others create at the same moment. */
const TRIES = 10;

/**
 * Creates the tables that list all others, once. Databases fail `CREATE … IF NOT EXISTS` if two sessions run it at the
 * same moment. By the next try one of them has succeeded.
 */
export async function createRegistry(session: SqlSession, tuned: readonly string[] = []): Promise<void> {
  for (let tries = 1; !(await isComplete(session)); tries += 1) {
    try {
      await transaction(session, () => tryCreate(session, tuned));
    } catch (error) {
      if (tries === TRIES) throw error;
    }
  }
}

/** Checks before it creates: a user who may not create a schema can use one that an administrator made. */
async function tryCreate(session: SqlSession, tuned: readonly string[]): Promise<void> {
  const { schema = SCHEMA } = session;
  const schemas = await session.rows(
    `SELECT 1 FROM information_schema.schemata WHERE schema_name = ${literal(schema)}`,
  );
  if (schemas.length === 0) await session.run(`CREATE SCHEMA IF NOT EXISTS "${schema}"`);
  const isOlder = await hasRegistry(session);
  for (const statement of registryOf(tablesOf(session))) await session.run(statement);
  if (!isOlder) for (const statement of tuned) await session.run(statement);
}

/** Needs no check if the database is writable, since `prepare` has created the tables. */
async function isPrepared({ session, writable }: SqlDatabase): Promise<boolean> {
  return writable || hasRegistry(session);
}

/** Sessions that have found the tables, which are never dropped. */
const found = new WeakSet<SqlSession>();

export async function hasRegistry(session: SqlSession): Promise<boolean> {
  if (found.has(session)) return true;
  const isThere = await hasTable(session, 'plans');
  if (isThere) found.add(session);
  return isThere;
}

/** False for a registry from before snapshots belonged to a store. */
export async function isComplete(session: SqlSession): Promise<boolean> {
  const isThere = await hasTable(session, OWNER);
  if (isThere) found.add(session);
  return isThere;
}

async function hasTable(session: SqlSession, table: string): Promise<boolean> {
  const tables = await session.rows(
    `SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = ${literal(session.schema ?? SCHEMA)} AND tablename = '${table}'`,
  );
  return tables.length > 0;
}

/** False for tables of members and plans from before there was the column. */
export async function hasColumn(session: SqlSession, table: string, column: 'hash' | 'since'): Promise<boolean> {
  const columns = await session.columns(`SELECT * FROM ${table} LIMIT 0`);
  return columns.some(({ name }) => name === column);
}

export async function hasHistory(database: SqlDatabase): Promise<boolean> {
  return isPrepared(database);
}

export async function readStaged(database: SqlDatabase, plan: string): Promise<Staged | null> {
  const { session } = database;
  if (!(await isPrepared(database))) return null;
  const [row] = await session.rows(`SELECT staged FROM ${tablesOf(session).plans} WHERE plan = ${literal(plan)}`);
  return row ? (JSON.parse(String(row[0])) as Staged) : null;
}

export async function dropLeftovers(session: SqlSession, { key, leasedAt }: StageRequest): Promise<void> {
  const leftovers = await session.rows(
    `SELECT plan FROM ${tablesOf(session).plans} WHERE key = ${literal(key)} AND leased_at < ${leasedAt}`,
  );
  for (const [plan] of leftovers) await dropPlan(session, String(plan));
}

export async function dropPlan(session: SqlSession, plan: string): Promise<void> {
  const tables = tablesOf(session);
  await session.run(`DROP TABLE IF EXISTS ${tables.plan(plan)}`);
  await session.run(`DELETE FROM ${tables.plans} WHERE plan = ${literal(plan)}`);
}

/** The tables that hold user ids. */
export async function dataTables(session: SqlSession): Promise<readonly string[]> {
  const tables = tablesOf(session);
  const keys = await session.rows(`SELECT key FROM ${tables.snapshots}`);
  const plans = await session.rows(`SELECT plan FROM ${tables.plans}`);
  return [
    ...keys.flatMap(([key]) => [tables.members(String(key)), tables.leavers(String(key))]),
    ...plans.map(([plan]) => tables.plan(String(plan))),
    tables.history,
  ];
}

/**
 * Locks a plan, or those of these keys, until the transaction ends, so that no snapshot is moved by a plan that users
 * are being removed from.
 */
export async function holdPlans(session: SqlSession, condition: string): Promise<void> {
  await session.run(`UPDATE ${tablesOf(session).plans} SET staged = staged${condition}`);
}

export async function createSnapshotTables({ session, dialect }: SqlDatabase, key: string): Promise<void> {
  await dropSnapshotTables(session, key);
  const id = `user_id varchar${dialect.binary} NOT NULL`;
  const { members, leavers } = tablesOf(session);
  await session.run(`CREATE TABLE ${members(key)} (${id}, value varchar, since bigint NOT NULL, hash bigint)`);
  await session.run(`CREATE TABLE ${leavers(key)} (${id}, since bigint NOT NULL)`);
}

/** The column of ids' hashes, for a database without an index of ids. */
export const ID_HASH = 'id_hash';

export const addIdHashes = (table: string) => `ALTER TABLE ${table} ADD COLUMN IF NOT EXISTS ${ID_HASH} ubigint`;

/** Adds rows to tables and hashes their ids. Tables from before there were hashes get the column: DuckDB adds none to changed ones. */
export async function withIdHashes<T>(
  { session, dialect }: SqlDatabase,
  tables: readonly string[],
  add: () => Promise<T>,
): Promise<T> {
  if (dialect.idHash === null) return add();
  const hash = dialect.idHash.sql('user_id');
  for (const table of tables) await session.run(addIdHashes(table));
  const added = await add();
  for (const table of tables) await session.run(`UPDATE ${table} SET ${ID_HASH} = ${hash} WHERE ${ID_HASH} IS NULL`);
  return added;
}

export async function dropSnapshot(session: SqlSession, key: string): Promise<void> {
  await session.run(`DELETE FROM ${tablesOf(session).snapshots} WHERE key = ${literal(key)}`);
  await dropSnapshotTables(session, key);
}

async function dropSnapshotTables(session: SqlSession, key: string): Promise<void> {
  const { members, leavers } = tablesOf(session);
  await session.run(`DROP TABLE IF EXISTS ${members(key)}`);
  await session.run(`DROP TABLE IF EXISTS ${leavers(key)}`);
}
