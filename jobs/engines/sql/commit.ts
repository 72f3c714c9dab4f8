import { RollcallError } from '../../../src/errors.ts';
import type { Staged } from '../port.ts';
import { literal } from './plan-query.ts';
import type { Session, SqlDatabase } from './session.ts';
import {
  createSnapshotTables,
  dropSnapshotTables,
  holdPlans,
  leaversTable,
  membersTable,
  planTable,
  readSnapshot,
  readStaged,
} from './tables.ts';

/**
 * Moves the snapshot to where the plan leads.
 *
 * @throws RollcallError `snapshot_lost`, `snapshot_moved`
 */
export async function commitPlan(database: SqlDatabase, plan: string): Promise<void> {
  const { session, tuned } = database;
  await holdPlans(session, ` WHERE plan = ${literal(plan)}`);
  const staged = await readStaged(database, plan);
  if (!staged) throw new RollcallError('snapshot_lost', `The plan ${plan} is gone from its engine.`);
  const { key, action, fromVersion, toVersion } = staged;
  if (action === 'backfill') return;
  const current = await readSnapshot(database, key);
  const target = action === 'retire' ? 0 : toVersion;
  if (current.version === target) return;
  if (current.version !== fromVersion) throw moved(staged);
  if (action === 'retire') {
    if ((await session.run(`DELETE FROM rollcall.snapshots WHERE ${snapshotRow(staged)}`)) !== 1) throw moved(staged);
    await dropSnapshotTables(session, key);
    return;
  }
  if (fromVersion === 0) {
    await session.run(`INSERT INTO rollcall.snapshots VALUES (${literal(key)}, 0, 0)`);
    await createSnapshotTables(database, key);
  }
  const growth = await applyPlan(session, staged);
  const set = `version = ${toVersion}, members = members + ${growth}`;
  const updated = await session.run(`UPDATE rollcall.snapshots SET ${set} WHERE ${snapshotRow(staged)}`);
  if (updated !== 1) throw moved(staged);
  if (fromVersion === 0) for (const statement of tuned.members(membersTable(key))) await session.run(statement);
}

function snapshotRow({ key, fromVersion }: Staged): string {
  return `key = ${literal(key)} AND version = ${fromVersion}`;
}

/** Moves members in and out; gives by how many the membership grew. */
async function applyPlan(session: Session, staged: Staged): Promise<number> {
  if (staged.total === 0) return 0;
  const members = membersTable(staged.key);
  const leavers = leaversTable(staged.key);
  const rows = (condition: string) => `FROM ${planTable(staged.plan)} WHERE user_id IS NOT NULL AND ${condition}`;
  // An audience's row says all there is; a trait's may have another value.
  const [removed, added] = staged.kind === 'trait' ? ['was', 'now'] : ['was AND NOT now', 'now AND NOT was'];
  let growth = 0;
  if (staged.before > 0) {
    growth -= await session.run(`DELETE FROM ${members} WHERE user_id IN (SELECT user_id ${rows(removed)})`);
  }
  growth += await session.run(`INSERT INTO ${members} SELECT user_id, value, ${staged.toVersion} ${rows(added)}`);
  await session.run(`DELETE FROM ${leavers} WHERE user_id IN (SELECT user_id ${rows('now AND NOT was')})`);
  await session.run(`INSERT INTO ${leavers} SELECT user_id, ${staged.toVersion} ${rows('was AND NOT now')}`);
  return growth;
}

function moved({ key, fromVersion }: Staged): RollcallError {
  return new RollcallError('snapshot_moved', `${key}: the snapshot has moved on from version ${fromVersion}.`);
}
