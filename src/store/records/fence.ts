import { RollcallError } from '../../kernel/errors.ts';
import type { Fence, PlanStep } from '../port.ts';
import { type Sql, sql } from '../sql.ts';
import { checkEpoch } from './deletions.ts';
import type { Session } from './session.ts';

/**
 * Keeps the lease from being taken until the transaction ends.
 *
 * @throws RollcallError `fence_lost` if another process has taken the lease
 */
export async function checkFence({ rows, dialect }: Session, { lease, token }: Fence): Promise<void> {
  const query = sql`SELECT token FROM rollcall.lease WHERE name = ${lease} ${dialect.forShare}`;
  const [row] = await rows<[number]>(query);
  if (row?.[0] !== token) {
    throw new RollcallError('fence_lost', `Another process has taken over ${lease}; this one stops.`);
  }
}

/**
 * Moves a run's cursor past a batch, in the transaction that accepts it; false if it was moved before.
 *
 * @throws RollcallError `fence_lost`, `unknown_run`, `epoch_moved`
 */
export async function moveCursor(session: Session, step: PlanStep, sent: number): Promise<boolean> {
  const { run, cursor, after, fence, epoch } = step;
  const held = sql`(SELECT token FROM rollcall.lease WHERE name = ${fence.lease} ${session.dialect.forShare})`;
  const moved = await session.run(
    sql`UPDATE rollcall.run SET cursor = ${cursor}, sent = sent + ${sent}
      WHERE id = ${run} AND state <> 'cancelled' AND ${held} = ${fence.token}${standsAt(after)}`,
  );
  if (moved === 0) {
    await checkFence(session, fence);
    const [row] = await session.rows<[string | null]>(sql`SELECT cursor FROM rollcall.run WHERE id = ${run}`);
    if (!row) throw new RollcallError('unknown_run', `There is no run ${run}.`);
    if (row[0] === cursor) return false;
    throw new RollcallError('fence_lost', `The run ${run} has been moved on from where this process left it.`);
  }
  await checkEpoch(session, epoch);
  return true;
}

/** Subtracts messages that `moveCursor` counted but that were not accepted, because their users are excluded. */
export async function takeBackSent(session: Session, { run }: PlanStep, count: number): Promise<void> {
  if (count > 0) await session.run(sql`UPDATE rollcall.run SET sent = sent - ${count} WHERE id = ${run}`);
}

function standsAt(after: PlanStep['after']): Sql {
  if (after === undefined) return sql``;
  return after === null ? sql` AND cursor IS NULL` : sql` AND cursor = ${after}`;
}
