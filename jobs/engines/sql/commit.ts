import { RollcallError } from '../../../src/kernel/errors.ts';
import type { Staged } from '../port.ts';
import { hasPlaces, literal } from './plan-query.ts';
import type { SqlDatabase, SqlSession } from './session.ts';
import {
  createSnapshotTables,
  hasColumn,
  holdPlans,
  ID_HASH,
  readSnapshot,
  readStaged,
  type SqlTables,
  tablesOf,
  withIdHashes,
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
  const tables = tablesOf(session);
  if (fromVersion === 0) {
    await session.run(`INSERT INTO ${tables.snapshots} VALUES (${literal(key)}, 0, 0)`);
    await createSnapshotTables(database, key);
  }
  const written = [tables.members(key), tables.leavers(key), tables.history];
  const growth = await withIdHashes(database, written, () => applyPlan(database, staged));
  const set = `version = ${toVersion}, members = members + ${growth}`;
  const updated = await session.run(`UPDATE ${tables.snapshots} SET ${set} WHERE ${snapshotRow(staged)}`);
  if (updated !== 1) throw moved(staged);
  if (fromVersion === 0) for (const statement of tuned.members(tables.members(key))) await session.run(statement);
}

function snapshotRow({ key, fromVersion }: Staged): string {
  return `key = ${literal(key)} AND version = ${fromVersion}`;
}

/** Adds and removes members; resolves to the growth of the membership. */
async function applyPlan({ session, dialect }: SqlDatabase, staged: Staged): Promise<number> {
  const tables = tablesOf(session);
  // Here, since an update of all rows of a first sync would take longer than their insert.
  const [idHash, idHashes] =
    dialect.idHash === null ? ['', ''] : [`, ${ID_HASH}`, `, ${dialect.idHash.sql('user_id')}`];
  const members = tables.members(staged.key);
  const hash = await prepareHashes(session, members, tables.plan(staged.plan));
  if (staged.total + (staged.silent ?? 0) === 0) return 0;
  const leavers = tables.leavers(staged.key);
  const rows = (condition: string) =>
    `FROM ${tables.plan(staged.plan)} WHERE user_id IS NOT NULL AND n >= 0 AND ${condition}`;
  let growth = 0;
  if (staged.before > 0) {
    await remember(session, staged);
    growth -= await session.run(`DELETE FROM ${members} WHERE user_id IN (${endedUsers(tables, staged)})`);
  }
  const order = hasPlaces(staged.action, staged.fromVersion) ? ' ORDER BY place' : '';
  growth += await session.run(
    `INSERT INTO ${members} (user_id, value, since${hash}${idHash}) SELECT user_id, value, ${staged.toVersion}${hash}${idHashes} ${rows(begunStates(tables, staged))}${order}`,
  );
  if (staged.fromVersion > 0)
    await session.run(`DELETE FROM ${leavers} WHERE user_id IN (SELECT user_id ${rows('now AND NOT was')})`);
  await session.run(
    `INSERT INTO ${leavers} (user_id, since${idHash}) SELECT user_id, ${staged.toVersion}${idHashes} ${rows('was AND NOT now')}`,
  );
  return growth;
}

/** Gives members the hashes that they lack. Resolves to the column of a plan that has hashes, for a list. */
async function prepareHashes(session: SqlSession, members: string, plan: string): Promise<'' | ', hash'> {
  if (!(await hasColumn(session, plan, 'hash'))) return '';
  if (!(await hasColumn(session, members, 'hash'))) await session.run(`ALTER TABLE ${members} ADD COLUMN hash bigint`);
  await session.run(
    `UPDATE ${members} AS members SET hash = planned.hash FROM ${plan} AS planned
     WHERE planned.n < 0 AND planned.user_id = members.user_id`,
  );
  return ', hash';
}

/** Adds the states of members that end now to the history. */
async function remember(session: SqlSession, staged: Staged): Promise<void> {
  const { key, action, toVersion, plan } = staged;
  const tables = tablesOf(session);
  const isKnown = action === 'sync' && (await hasColumn(session, tables.plan(plan), 'since'));
  const ended = isKnown
    ? `SELECT user_id, known AS value, since ${endedRows(tables, staged)}`
    : `SELECT ended.user_id, ended.value, ended.since ${endedStates(tables, staged)}`;
  await session.run(`INSERT INTO ${tables.history} (key, user_id, value, since, until, ended_at)
    SELECT ${literal(key)}, user_id, value, since, ${toVersion},
      (SELECT leased_at FROM ${tables.plans} WHERE plan = ${literal(plan)}) FROM (${ended}) AS ended`);
}

/** The old states of members who leave or get another value. */
function endedStates(tables: SqlTables, { key, plan }: Staged): string {
  return `FROM ${tables.members(key)} AS ended JOIN ${tables.plan(plan)} AS planned ON planned.user_id = ended.user_id
    WHERE planned.n >= 0 AND planned.was AND (NOT planned.now OR planned.value IS DISTINCT FROM ended.value)`;
}

/** The users of those. Only a resync has unchanged members, which it takes the snapshot to recognize. */
function endedUsers(tables: SqlTables, staged: Staged): string {
  if (staged.action === 'resync') return `SELECT ended.user_id ${endedStates(tables, staged)}`;
  return `SELECT user_id ${endedRows(tables, staged)}`;
}

/** The rows of a sync's plan for those. */
const endedRows = (tables: SqlTables, { plan }: Staged) =>
  `FROM ${tables.plan(plan)} WHERE n >= 0 AND user_id IS NOT NULL AND was`;

/** A condition for the plan's rows that are new in the snapshot. A resync also has unchanged ones. */
function begunStates(tables: SqlTables, { key, action, plan }: Staged): string {
  if (action !== 'resync') return 'now';
  const present = `SELECT 1 FROM ${tables.members(key)} AS present WHERE present.user_id = ${tables.plan(plan)}.user_id`;
  return `now AND NOT EXISTS (${present})`;
}

function moved({ key, fromVersion }: Staged): RollcallError {
  return new RollcallError('snapshot_moved', `${key}: the snapshot has moved on from version ${fromVersion}.`);
}
