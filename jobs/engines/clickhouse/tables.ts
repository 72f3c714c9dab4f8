import { createHash } from 'node:crypto';
import type { Snapshot, Staged } from '../port.ts';
import type { ClickHouse } from './session.ts';
import { literal, literals, whole } from './types.ts';

/**
 * ClickHouse has no transactions, so nothing is changed in place. Related rows become visible by one row, written last:
 * `snapshots` has the version up to which the states of a key count, `plans` marks complete plans.
 */
interface Tables {
  readonly plans: string;
  readonly snapshots: string;
  readonly history: string;
  /** (store, at): the store that the snapshots belong to is the one that claimed them first. */
  readonly owner: string;
  /** (user_id, version, present, value): the changes of each version of a snapshot. */
  states(key: string): string;
  plan(plan: string): string;
}

const OWNER = 'snapshot_store';

export function tablesOf({ database }: ClickHouse): Tables {
  return {
    plans: `${database}.plans`,
    snapshots: `${database}.snapshots`,
    history: `${database}.history`,
    owner: `${database}.${OWNER}`,
    states: (key) => `${database}.states_${suffix(key)}`,
    plan: (plan) => `${database}.plan_${suffix(plan)}`,
  };
}

/** Keys may be long and contain anything, unlike table names. */
function suffix(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

/** Creates the tables, in which rows with a higher `change` replace others. */
export async function createRegistry(session: ClickHouse): Promise<void> {
  const { database } = session;
  const { plans, snapshots, history, owner } = tablesOf(session);
  // Created last.
  if (await hasTable(session, OWNER)) return;
  const [known] = await session.rows(`SELECT count() FROM system.databases WHERE name = ${plainName(database)}`);
  // A user who may not create one may use the one that an administrator made.
  if (whole(known?.[0]) === 0) await session.run(`CREATE DATABASE IF NOT EXISTS ${database}`);
  await session.run(`CREATE TABLE IF NOT EXISTS ${history} (key String, user_id String, value Nullable(String), since UInt64,
    until UInt64, ended_at UInt64) ENGINE = ReplacingMergeTree ORDER BY (key, user_id, until, since)`);
  await session.run(`CREATE TABLE IF NOT EXISTS ${snapshots} (key String, version UInt64, members UInt64, gone UInt8, change UInt64)
    ENGINE = ReplacingMergeTree(change) ORDER BY key`);
  await session.run(`CREATE TABLE IF NOT EXISTS ${plans} (plan String, key String, leased_at UInt64, staged String, gone UInt8,
    change UInt64) ENGINE = ReplacingMergeTree(change) ORDER BY plan`);
  await session.run(
    `CREATE TABLE IF NOT EXISTS ${owner} (store String, at DateTime64(6)) ENGINE = MergeTree ORDER BY store`,
  );
}

export const hasRegistry = (session: ClickHouse) => hasTable(session, 'plans');

async function hasTable(session: ClickHouse, table: string): Promise<boolean> {
  const [row] = await session.rows(
    `SELECT count() FROM system.tables WHERE database = ${plainName(session.database)} AND name = ${literal(table)}`,
  );
  return whole(row?.[0]) > 0;
}

/** The database's name as a string in SQL. */
export const plainName = (quoted: string) => literal(quoted.slice(1, -1));

interface SnapshotRow extends Snapshot {
  readonly change: number;
}

export async function readSnapshot(session: ClickHouse, key: string): Promise<SnapshotRow> {
  const { snapshots } = tablesOf(session);
  const [row] = await session.rows(
    `SELECT version, members, gone, change FROM ${snapshots} WHERE key = ${literal(key)} ORDER BY change DESC LIMIT 1`,
  );
  const [version = 0, members = 0, gone = 1, change = 0] = (row ?? []).map(whole);
  return gone === 1 ? { version: 0, members: 0, change } : { version, members, change };
}

/** @param change - of the row that this one replaces */
export async function writeSnapshot(
  session: ClickHouse,
  key: string,
  { version, members }: Snapshot,
  change: number,
  gone = false,
): Promise<void> {
  const row = [literal(key), version, members, gone ? 1 : 0, change + 1];
  await session.run(`INSERT INTO ${tablesOf(session).snapshots} SELECT ${row.join(', ')}`);
}

interface PlanRow {
  readonly plan: string;
  readonly key: string;
  readonly leasedAt: number;
  /** Null while it is being made. */
  readonly staged: Staged | null;
}

/** @param condition - on plan, key and leased_at */
export async function readPlans(session: ClickHouse, condition: string): Promise<readonly PlanRow[]> {
  const rows = await session.rows(
    `SELECT plan, key, leased_at, staged FROM ${tablesOf(session).plans} FINAL WHERE gone = 0 AND ${condition}`,
  );
  return rows.map(([plan, key, leasedAt, staged]) => ({
    plan: String(plan),
    key: String(key),
    leasedAt: whole(leasedAt),
    staged: staged === '' ? null : (JSON.parse(String(staged)) as Staged),
  }));
}

export async function readPlan(session: ClickHouse, plan: string): Promise<(PlanRow & { staged: Staged }) | null> {
  const [row] = await readPlans(session, `plan = ${literal(plan)}`);
  return row?.staged ? { ...row, staged: row.staged } : null;
}

/** A plan is in the making, complete, and gone, in this order. The name of one that is gone may be used again. */
export async function writePlan(
  session: ClickHouse,
  { plan, key, leasedAt, staged }: PlanRow,
  gone = false,
): Promise<void> {
  const { plans } = tablesOf(session);
  const text = staged === null ? '' : JSON.stringify(staged);
  await session.run(`INSERT INTO ${plans} SELECT ${literal(plan)}, ${literal(key)}, ${leasedAt}, ${literal(text)}, ${gone ? 1 : 0},
    (SELECT max(change) + 1 FROM ${plans} WHERE plan = ${literal(plan)})`);
}

export async function readOwner(session: ClickHouse): Promise<string | null> {
  if (!(await hasTable(session, OWNER))) return null;
  const [row] = await session.rows(`SELECT store FROM ${tablesOf(session).owner} ORDER BY at, store LIMIT 1`);
  return row ? String(row[0]) : null;
}

export async function readVersions(session: ClickHouse): Promise<ReadonlyMap<string, number>> {
  const rows = await session.rows(`SELECT key, version FROM ${tablesOf(session).snapshots} FINAL WHERE gone = 0`);
  return new Map(rows.map(([key, version]) => [String(key), whole(version)]));
}

export async function giveTo(session: ClickHouse, store: string, from: string | null): Promise<void> {
  const { owner } = tablesOf(session);
  if (from !== null && from !== (await readOwner(session))) return;
  await session.run(`INSERT INTO ${owner} SELECT ${literal(store)}, now64(6)`);
  if (from !== null) await session.run(`DELETE FROM ${owner} WHERE store <> ${literal(store)}`);
}

export async function dropPlan(session: ClickHouse, row: PlanRow): Promise<void> {
  await session.run(`DROP TABLE IF EXISTS ${tablesOf(session).plan(row.plan)}`);
  await writePlan(session, { ...row, staged: null }, true);
}

/** Drops plans of earlier runs of this key, including those that were never finished. */
export async function dropLeftovers(session: ClickHouse, key: string, leasedAt: number): Promise<void> {
  const leftovers = await readPlans(session, `key = ${literal(key)} AND leased_at < ${leasedAt}`);
  for (const row of leftovers) await dropPlan(session, row);
}

/** Keys that have a snapshot, or may have the beginnings of one. */
export async function stateKeys(session: ClickHouse, keys: readonly string[] | null): Promise<readonly string[]> {
  const scope = keys === null ? '' : ` AND key IN ${literals(keys)}`;
  const rows = await session.rows(`SELECT key FROM ${tablesOf(session).snapshots} FINAL WHERE gone = 0${scope}`);
  return rows.map(([key]) => String(key));
}

/** A query for the state of each user of a snapshot: (user_id, value, present, since). */
export function latestStates(states: string, version: number, condition = 'true'): string {
  return `SELECT user_id, tupleElement(latest, 1) AS value, tupleElement(latest, 2) AS present, since FROM (
    SELECT user_id, argMax((value, present), version) AS latest, max(version) AS since
    FROM ${states} WHERE version <= ${version} AND ${condition} GROUP BY user_id)`;
}
