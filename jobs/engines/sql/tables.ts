import { createHash } from 'node:crypto';
import type { Snapshot, Staged, StageRequest } from '../port.ts';
import { literal } from './plan-query.ts';
import { type SqlDatabase, type SqlSession, transaction } from './session.ts';

/** Past states of members: the versions at which each began and ended, and the time when the latter was computed. */
export const HISTORY = 'rollcall.history';

const REGISTRY = [
  `CREATE TABLE IF NOT EXISTS ${HISTORY} (key varchar NOT NULL, user_id varchar NOT NULL, value varchar, since bigint NOT NULL, until bigint NOT NULL, ended_at bigint NOT NULL)`,
  `CREATE TABLE IF NOT EXISTS rollcall.snapshots (key varchar NOT NULL, version bigint NOT NULL, members bigint NOT NULL)`,
  `CREATE TABLE IF NOT EXISTS rollcall.plans (plan varchar NOT NULL, key varchar NOT NULL, leased_at bigint NOT NULL, staged varchar NOT NULL)`,
];

/** Keys may be long and differ by case only, which table names may not. */
export function membersTable(key: string): string {
  return `rollcall.members_${suffix(key)}`;
}

export function leaversTable(key: string): string {
  return `rollcall.leavers_${suffix(key)}`;
}

export function planTable(plan: string): string {
  return `rollcall.plan_${suffix(plan)}`;
}

export function previewTable(plan: string): string {
  return `preview_${suffix(plan)}`;
}

function suffix(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

export async function readSnapshot(database: SqlDatabase, key: string): Promise<Snapshot> {
  const { session } = database;
  if (!(await isPrepared(database))) return { version: 0, members: 0 };
  const [row] = await session.rows(`SELECT version, members FROM rollcall.snapshots WHERE key = ${literal(key)}`);
  return { version: Number(row?.[0] ?? 0), members: Number(row?.[1] ?? 0) };
}

/** Tries to create tables that others create at the same moment. */
const TRIES = 10;

/**
 * Creates the tables that list all others, once. Databases fail `CREATE … IF NOT EXISTS` if two sessions run it at the
 * same moment. By the next try one of them has succeeded.
 */
export async function createRegistry(session: SqlSession, tuned: readonly string[] = []): Promise<void> {
  for (let tries = 1; !(await hasRegistry(session)); tries += 1) {
    try {
      await transaction(session, () => tryCreate(session, tuned));
    } catch (error) {
      if (tries === TRIES) throw error;
    }
  }
}

/** Checks before it creates: a user who may not create a schema can use one that an administrator made. */
async function tryCreate(session: SqlSession, tuned: readonly string[]): Promise<void> {
  const schemas = await session.rows(`SELECT 1 FROM information_schema.schemata WHERE schema_name = 'rollcall'`);
  if (schemas.length === 0) await session.run('CREATE SCHEMA IF NOT EXISTS rollcall');
  for (const statement of [...REGISTRY, ...tuned]) await session.run(statement);
}

/** Needs no check if the database is writable, since `prepare` has created the tables. */
async function isPrepared({ session, writable }: SqlDatabase): Promise<boolean> {
  return writable || hasRegistry(session);
}

/** Sessions that have found the tables, which are never dropped. */
const found = new WeakSet<SqlSession>();

export async function hasRegistry(session: SqlSession): Promise<boolean> {
  if (found.has(session)) return true;
  const tables = await session.rows(
    `SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = 'rollcall' AND tablename = 'plans'`,
  );
  if (tables.length > 0) found.add(session);
  return tables.length > 0;
}

export async function hasHistory(database: SqlDatabase): Promise<boolean> {
  return isPrepared(database);
}

export async function readStaged(database: SqlDatabase, plan: string): Promise<Staged | null> {
  const { session } = database;
  if (!(await isPrepared(database))) return null;
  const [row] = await session.rows(`SELECT staged FROM rollcall.plans WHERE plan = ${literal(plan)}`);
  return row ? (JSON.parse(String(row[0])) as Staged) : null;
}

export async function dropLeftovers(session: SqlSession, { key, leasedAt }: StageRequest): Promise<void> {
  const leftovers = await session.rows(
    `SELECT plan FROM rollcall.plans WHERE key = ${literal(key)} AND leased_at < ${leasedAt}`,
  );
  for (const [plan] of leftovers) await dropPlan(session, String(plan));
}

export async function dropPlan(session: SqlSession, plan: string): Promise<void> {
  await session.run(`DROP TABLE IF EXISTS ${planTable(plan)}`);
  await session.run(`DELETE FROM rollcall.plans WHERE plan = ${literal(plan)}`);
}

/** The tables that hold user ids. */
export async function dataTables(session: SqlSession): Promise<readonly string[]> {
  const keys = await session.rows('SELECT key FROM rollcall.snapshots');
  const plans = await session.rows('SELECT plan FROM rollcall.plans');
  return [
    ...keys.flatMap(([key]) => [membersTable(String(key)), leaversTable(String(key))]),
    ...plans.map(([plan]) => planTable(String(plan))),
    HISTORY,
  ];
}

/**
 * Locks a plan, or those of these keys, until the transaction ends, so that no snapshot is moved by a plan that users
 * are being removed from.
 */
export async function holdPlans(session: SqlSession, condition: string): Promise<void> {
  await session.run(`UPDATE rollcall.plans SET staged = staged${condition}`);
}

export async function createSnapshotTables({ session, dialect }: SqlDatabase, key: string): Promise<void> {
  await dropSnapshotTables(session, key);
  const id = `user_id varchar${dialect.binary} NOT NULL`;
  await session.run(`CREATE TABLE ${membersTable(key)} (${id}, value varchar, since bigint NOT NULL)`);
  await session.run(`CREATE TABLE ${leaversTable(key)} (${id}, since bigint NOT NULL)`);
}

export async function dropSnapshot(session: SqlSession, key: string): Promise<void> {
  await session.run(`DELETE FROM rollcall.snapshots WHERE key = ${literal(key)}`);
  await dropSnapshotTables(session, key);
}

async function dropSnapshotTables(session: SqlSession, key: string): Promise<void> {
  await session.run(`DROP TABLE IF EXISTS ${membersTable(key)}`);
  await session.run(`DROP TABLE IF EXISTS ${leaversTable(key)}`);
}
