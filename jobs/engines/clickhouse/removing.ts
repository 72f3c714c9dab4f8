import type { ClickHouse } from './session.ts';
import { latestStates, readPlans, readSnapshot, stateKeys, tablesOf, writeSnapshot } from './tables.ts';
import { literals, whole } from './types.ts';

/**
 * Removes users from plans first, so that a running commit notices, then from snapshots, and last from the history.
 */
export async function forgetUsers(
  session: ClickHouse,
  users: readonly string[],
  keys: readonly string[] | null,
): Promise<void> {
  if (keys?.length === 0 || users.length === 0) return;
  const tables = tablesOf(session);
  const theirs = `user_id IN ${literals(users)}`;
  const scope = keys === null ? 'true' : `key IN ${literals(keys)}`;
  // A plan in the making has no rows to remove yet. Its run excludes users who are deleted in the meantime.
  const made = (await readPlans(session, scope)).filter(({ staged }) => staged !== null);
  for (const { plan } of made) await session.run(`DELETE FROM ${tables.plan(plan)} WHERE ${theirs}`);
  for (const key of await stateKeys(session, keys)) await forgetStates(session, key, theirs);
  await session.run(`DELETE FROM ${tables.history} WHERE ${theirs} AND ${scope}`);
}

async function forgetStates(session: ClickHouse, key: string, theirs: string): Promise<void> {
  const states = tablesOf(session).states(key);
  const [found] = await session.rows(`SELECT count() FROM ${states} WHERE ${theirs}`);
  if (whole(found?.[0]) === 0) return;
  await session.run(`DELETE FROM ${states} WHERE ${theirs}`);
  const { version, change } = await readSnapshot(session, key);
  const [left] = await session.rows(`SELECT countIf(present) FROM (${latestStates(states, version)})`);
  await writeSnapshot(session, key, { version, members: whole(left?.[0]) }, change);
}

/** Rewrites tables whose deleted rows are only hidden by a mask. */
export async function scrub(session: ClickHouse, scope: 'all' | 'plans'): Promise<void> {
  const tables = tablesOf(session);
  const plans = (await readPlans(session, 'true')).filter(({ staged }) => staged !== null);
  const all = scope === 'all' ? [...(await stateKeys(session, null)).map(tables.states), tables.history] : [];
  for (const table of [...plans.map(({ plan }) => tables.plan(plan)), ...all]) {
    await session.run(`ALTER TABLE ${table} APPLY DELETED MASK`);
  }
}

export async function dropSnapshot(session: ClickHouse, key: string): Promise<void> {
  const { version, members, change } = await readSnapshot(session, key);
  if (version > 0) await writeSnapshot(session, key, { version, members }, change, true);
  await session.run(`DROP TABLE IF EXISTS ${tablesOf(session).states(key)}`);
}

/** Rows beyond two per user from which replaced rows are removed. */
const SLACK = 10_000;

/** Forgets history before a time, in milliseconds since 1970, and replaced rows once they are most of a table. */
export async function prune(session: ClickHouse, before: number): Promise<void> {
  const tables = tablesOf(session);
  const old = `ended_at < ${Math.floor(before)}`;
  const [found] = await session.rows(`SELECT count() FROM ${tables.history} WHERE ${old}`);
  if (whole(found?.[0]) > 0) await session.run(`DELETE FROM ${tables.history} WHERE ${old}`);
  for (const key of await stateKeys(session, null)) await compact(session, key);
}

async function compact(session: ClickHouse, key: string): Promise<void> {
  const states = tablesOf(session).states(key);
  const { version } = await readSnapshot(session, key);
  const [counts] = await session.rows(`SELECT count(), uniq(user_id) FROM ${states} WHERE version <= ${version}`);
  const [rows = 0, users = 0] = (counts ?? []).map(whole);
  if (rows <= 2 * users + SLACK) return;
  await session.run(`DELETE FROM ${states} WHERE version < ${version} AND (user_id, version) IN (
    SELECT user_id, arrayJoin(arrayFilter(each -> each < newest, versions)) FROM (
      SELECT user_id, groupArray(version) AS versions, max(version) AS newest FROM ${states}
      WHERE version <= ${version} GROUP BY user_id HAVING count() > 1))`);
}
