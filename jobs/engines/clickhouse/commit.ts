import { RollcallError } from '../../../src/kernel/errors.ts';
import type { Staged } from '../port.ts';
import type { ClickHouse } from './session.ts';
import { latestStates, readPlan, readSnapshot, tablesOf, writeSnapshot } from './tables.ts';
import { literal, whole } from './types.ts';

/**
 * Moves the snapshot to the plan's version. Rows count once the snapshot's row names their version. An interrupted
 * commit is repeated, and writes the same rows.
 *
 * @throws RollcallError `snapshot_lost`, `snapshot_moved`
 */
export async function commitPlan(session: ClickHouse, plan: string): Promise<void> {
  const row = await readPlan(session, plan);
  if (!row) throw new RollcallError('snapshot_lost', `The plan ${plan} is gone from its engine.`);
  const { staged, leasedAt } = row;
  const { key, action, fromVersion, toVersion } = staged;
  if (action === 'backfill' || action === 'withdraw') return;
  const current = await readSnapshot(session, key);
  if (current.version === toVersion) return;
  // A retirement drops the snapshot after its commit.
  if (action === 'retire' && current.version === 0) return;
  if (current.version !== fromVersion) {
    throw new RollcallError('snapshot_moved', `${key}: the snapshot has moved on from version ${fromVersion}.`);
  }
  const states = tablesOf(session).states(key);
  if (fromVersion === 0) await createStates(session, states);
  await removeStrays(session, states, fromVersion);
  const before = await planned(session, plan);
  await remember(session, staged, leasedAt);
  await session.run(`INSERT INTO ${states} SELECT user_id, ${toVersion}, now, value FROM ${tablesOf(session).plan(plan)}
    WHERE user_id IS NOT NULL AND (was OR now) AND NOT same`);
  if ((await planned(session, plan)).users !== before.users) await leaveOut(session, staged);
  const { growth } = await planned(session, plan);
  await writeSnapshot(session, key, { version: toVersion, members: current.members + growth }, current.change);
}

/** Recreates the table, which may have rows of an earlier life of the key, or of a snapshot that was never finished. */
async function createStates(session: ClickHouse, states: string): Promise<void> {
  await session.run(`DROP TABLE IF EXISTS ${states}`);
  await session.run(`CREATE TABLE ${states} (user_id String, version UInt64, present Bool, value Nullable(String))
    ENGINE = ReplacingMergeTree ORDER BY (user_id, version)`);
}

/** Removes rows of an interrupted commit whose plan was discarded. */
async function removeStrays(session: ClickHouse, states: string, version: number): Promise<void> {
  const [row] = await session.rows(`SELECT count() FROM ${states} WHERE version > ${version}`);
  if (whole(row?.[0]) > 0) await session.run(`DELETE FROM ${states} WHERE version > ${version}`);
}

async function planned(
  session: ClickHouse,
  plan: string,
): Promise<{ readonly users: number; readonly growth: number }> {
  const [row] = await session.rows(`SELECT count(), countIf(now AND NOT was), countIf(was AND NOT now)
    FROM ${tablesOf(session).plan(plan)} WHERE user_id IS NOT NULL`);
  const [users = 0, entered = 0, exited = 0] = (row ?? []).map(whole);
  return { users, growth: entered - exited };
}

/** Adds the states of members that end now to the history. */
async function remember(
  session: ClickHouse,
  { key, plan, fromVersion, toVersion }: Staged,
  leasedAt: number,
): Promise<void> {
  if (fromVersion === 0) return;
  const tables = tablesOf(session);
  const ended = `user_id IN (SELECT user_id FROM ${tables.plan(plan)} WHERE user_id IS NOT NULL AND was AND NOT same)`;
  await session.run(`INSERT INTO ${tables.history}
    SELECT ${literal(key)}, user_id, value, since, ${toVersion}, ${leasedAt}
    FROM (${latestStates(tables.states(key), fromVersion, ended)}) WHERE present`);
}

/** Removes users who were deleted from the plan during the commit: a deletion goes through plans first. */
async function leaveOut(session: ClickHouse, { key, plan, toVersion }: Staged): Promise<void> {
  const tables = tablesOf(session);
  const gone = `user_id NOT IN (SELECT user_id FROM ${tables.plan(plan)} WHERE user_id IS NOT NULL)`;
  await session.run(`DELETE FROM ${tables.states(key)} WHERE version = ${toVersion} AND ${gone}`);
  await session.run(`DELETE FROM ${tables.history} WHERE key = ${literal(key)} AND until = ${toVersion} AND ${gone}`);
}
