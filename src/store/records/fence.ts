import { RollcallError } from '../../errors.ts';
import type { Fence, PlanStep } from '../port.ts';
import { sql } from '../sql.ts';
import { checkEpoch } from './deletions.ts';
import type { Session } from './session.ts';

/**
 * Keeps the lease from being taken until the transaction ends.
 *
 * @throws RollcallError `fence_lost` when another process has taken the lease since
 */
export async function checkFence({ rows, dialect }: Session, { lease, token }: Fence): Promise<void> {
  const query = sql`SELECT token FROM rollcall.lease WHERE name = ${lease} ${dialect.forShare}`;
  const [row] = await rows<[number]>(query);
  if (row?.[0] !== token) {
    throw new RollcallError('fence_lost', `Another process has taken over ${lease}; this one stops.`);
  }
}

/**
 * Moves a run's cursor past a batch, in the transaction that accepts the batch.
 *
 * @throws RollcallError `fence_lost`, `unknown_run`, `epoch_moved`
 */
export async function moveCursor(
  session: Session,
  { run, cursor, fence, epoch }: PlanStep,
  sent: number,
): Promise<void> {
  const held = sql`(SELECT token FROM rollcall.lease WHERE name = ${fence.lease} ${session.dialect.forShare})`;
  const moved = await session.run(
    sql`UPDATE rollcall.run SET cursor = ${cursor}, sent = sent + ${sent} WHERE id = ${run} AND ${held} = ${fence.token}`,
  );
  if (moved === 0) {
    await checkFence(session, fence);
    throw new RollcallError('unknown_run', `There is no run ${run}.`);
  }
  await checkEpoch(session, epoch);
}
