import { RollcallError } from '../../../src/kernel/errors.ts';
import type { Staged } from '../port.ts';
import { hasPlaces, literal } from './plan-query.ts';
import type { SqlDatabase, SqlSession } from './session.ts';
import {
  createSnapshotTables,
  HISTORY,
  holdPlans,
  leaversTable,
  membersTable,
  planTable,
  readSnapshot,
  readStaged,
} from './tables.ts';

/**
 * Moves the snapshot to the plan's version.
 *
 * @throws RollcallError `snapshot_lost`, `snapshot_moved`
 */
export async function commitPlan(database: SqlDatabase, plan: string): Promise<void> {
  const { session, tuned } = database;
  await holdPlans(session, ` WHERE plan = ${literal(plan)}`);
  const staged = await readStaged(database, plan);
  if (!staged) throw new RollcallError('snapshot_lost', `The plan ${plan} is gone from its engine.`);
  const { key, action, fromVersion, toVersion } = staged;
  if (action === 'backfill' || action === 'withdraw') return;
  const current = await readSnapshot(database, key);
  if (current.version === toVersion) return;
  // A retirement drops the snapshot after its commit.
  if (action === 'retire' && current.version === 0) return;
  if (current.version !== fromVersion) throw moved(staged);
  if (fromVersion === 0) {
    await session.run(`INSERT INTO rollcall.snapshots VALUES (${literal(key)}, 0, 0)`);
    await createSnapshotTables(database, key);
  }
  const growth = await applyPlan(database, staged);
  const set = `version = ${toVersion}, members = members + ${growth}`;
  const updated = await session.run(`UPDATE rollcall.snapshots SET ${set} WHERE ${snapshotRow(staged)}`);
  if (updated !== 1) throw moved(staged);
  if (fromVersion === 0) for (const statement of tuned.members(membersTable(key))) await session.run(statement);
}

function snapshotRow({ key, fromVersion }: Staged): string {
  return `key = ${literal(key)} AND version = ${fromVersion}`;
}

/** Adds and removes members; resolves to the growth of the membership. */
async function applyPlan({ session }: SqlDatabase, staged: Staged): Promise<number> {
  if (staged.total === 0) return 0;
  const members = membersTable(staged.key);
  const leavers = leaversTable(staged.key);
  const rows = (condition: string) => `FROM ${planTable(staged.plan)} WHERE user_id IS NOT NULL AND ${condition}`;
  let growth = 0;
  if (staged.before > 0) {
    await remember(session, staged);
    growth -= await session.run(`DELETE FROM ${members} WHERE user_id IN (${endedUsers(staged)})`);
  }
  const order = hasPlaces(staged.action, staged.fromVersion) ? ' ORDER BY place' : '';
  growth += await session.run(
    `INSERT INTO ${members} SELECT user_id, value, ${staged.toVersion} ${rows(begunStates(staged))}${order}`,
  );
  await session.run(`DELETE FROM ${leavers} WHERE user_id IN (SELECT user_id ${rows('now AND NOT was')})`);
  await session.run(`INSERT INTO ${leavers} SELECT user_id, ${staged.toVersion} ${rows('was AND NOT now')}`);
  return growth;
}

/** Adds the states of members that end now to the history. */
async function remember(session: SqlSession, staged: Staged): Promise<void> {
  const { key, toVersion, plan } = staged;
  await session.run(`INSERT INTO ${HISTORY}
    SELECT ${literal(key)}, ended.user_id, ended.value, ended.since, ${toVersion},
      (SELECT leased_at FROM rollcall.plans WHERE plan = ${literal(plan)}) ${endedStates(staged)}`);
}

/** The old states of members who leave or get another value. */
function endedStates({ key, plan }: Staged): string {
  return `FROM ${membersTable(key)} AS ended JOIN ${planTable(plan)} AS planned ON planned.user_id = ended.user_id
    WHERE planned.was AND (NOT planned.now OR planned.value IS DISTINCT FROM ended.value)`;
}

/** The users of those. Only a resync has unchanged members, which it takes the snapshot to recognize. */
function endedUsers(staged: Staged): string {
  if (staged.action === 'resync') return `SELECT ended.user_id ${endedStates(staged)}`;
  return `SELECT user_id FROM ${planTable(staged.plan)} WHERE user_id IS NOT NULL AND was`;
}

/** A condition for the plan's rows that are new in the snapshot. A resync also has unchanged ones. */
function begunStates({ key, kind, action, plan }: Staged): string {
  if (action !== 'resync') return kind === 'audience' ? 'now AND NOT was' : 'now';
  const present = `SELECT 1 FROM ${membersTable(key)} AS present WHERE present.user_id = ${planTable(plan)}.user_id`;
  return `now AND NOT EXISTS (${present})`;
}

function moved({ key, fromVersion }: Staged): RollcallError {
  return new RollcallError('snapshot_moved', `${key}: the snapshot has moved on from version ${fromVersion}.`);
}
