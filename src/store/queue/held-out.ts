import type { DeadReason } from '../../kernel/dead-reasons.ts';
import { CounterChanges } from '../changes.ts';
import { raw, sql } from '../sql.ts';
import { DELETION_LANE } from '../states.ts';
import type { Name, QueueSession } from './session.ts';
import { isInFlight, stateOf } from './waiting.ts';

/** Letters are requeued once the queue is down to this share of its limit: in batches, not one by one. */
const REFILL_BELOW = 0.75;

type Letter = readonly [id: number, conflict: string | null, ...unknown[]];

/**
 * Resolves to the number requeued, and the acceptance time of the last one by the database's clock, null if none.
 *
 * @param from - prefer letters accepted from this time on, if there are any
 */
export function requeue(
  session: QueueSession,
  destination: string,
  maxQueued: number,
  limit: number,
  from = 0,
): Promise<{ readonly count: number; readonly last: number | null }> {
  return session.transaction(async (session) => {
    const { rows, dialect, backlog } = session;
    const [counters] = await rows<[destination: Name, queued: number, heldOut: number]>(sql`
      SELECT destination, CAST(sum(queued) AS bigint), CAST(sum(held_out) AS bigint) FROM ${backlog}
      WHERE destination = ${dialect.name(destination)} GROUP BY destination`);
    const [name, queued, heldOut] = counters ?? ['', 0, 0];
    if (heldOut === 0 || queued > maxQueued * REFILL_BELOW) return { count: 0, last: null };
    const room = Math.min(limit, maxQueued - queued);
    const recent = await oldest(session, name, from, room);
    const letters = recent.length > 0 || from === 0 ? recent : await oldest(session, name, 0, room);
    const changes = new CounterChanges<Name>();
    const count = await queueHeldOut(session, name, letters, changes);
    await session.write(changes);
    return { count, last: letters.at(-1)?.[2] ?? null };
  });
}

function oldest({ rows, dialect }: QueueSession, destination: Name, from: number, limit: number) {
  return rows<[id: number, conflict: string | null, acceptedAt: number]>(sql`
    SELECT id, conflict, accepted_at FROM rollcall.dead_letter ${dialect.using('dead_letter_held_out')}
    WHERE destination = ${destination} AND reason = 'queue_full' AND accepted_at >= ${from}
    ORDER BY accepted_at, id LIMIT ${limit} ${dialect.forUpdate}`);
}

/** Queues locked letters of one destination, given in order of acceptance. */
export async function queueHeldOut(
  session: QueueSession,
  destination: Name,
  letters: readonly Letter[],
  changes: CounterChanges<Name>,
): Promise<number> {
  if (letters.length === 0) return 0;
  const { rows, dialect, entryColumns, lane } = session;
  const conflicts = letters.flatMap(([, conflict]) => conflict ?? []);
  if (conflicts.length > 0) await session.takeBack(destination, conflicts, changes);
  const these = dialect.oneOf(
    raw('id'),
    'id',
    letters.map(([id]) => id),
  );
  const held = sql`${these} AND reason = 'queue_full'`;
  const queued = await rows<[lane: number]>(sql`
    INSERT INTO rollcall.delivery
      (id, destination, ${entryColumns}, state, tries, type, source, message_id, user_id, accepted_at, run, conflict, body)
    SELECT id, destination, ${session.entry('as accepted')}, ${raw(stateOf('l'))}, 0, type, source, message_id, user_id, accepted_at, run,
      conflict, body
    FROM rollcall.dead_letter AS l WHERE ${held} ORDER BY accepted_at, id RETURNING ${lane}`);
  await session.run(sql`DELETE FROM rollcall.dead_letter WHERE ${held}`);
  for (const [lane] of queued) {
    changes.add(destination, null, { pending: 1, dead: -1, queued: lane === DELETION_LANE ? 0 : 1, heldOut: -1 });
  }
  return queued.length;
}

/**
 * Gives up letters accepted until `before`, or all: under another reason, they now wait for a person. A letter that
 * replaced a change in flight keeps its reason until that change has ended, since the reason records this.
 */
export async function giveUpHeldOut(
  { rows, run, dialect, time, skipLocked }: QueueSession,
  destination: string,
  reason: DeadReason,
  before: number | null,
  limit: number,
  changes: CounterChanges<Name>,
): Promise<number> {
  const letters = await rows<[id: number, destination: Name, run: Name | null]>(sql`
    SELECT id, destination, run FROM rollcall.dead_letter AS l ${dialect.using('dead_letter_held_out')}
    WHERE destination = ${dialect.name(destination)} AND reason = 'queue_full' AND NOT ${raw(isInFlight('l'))}
      ${before === null ? raw('') : sql`AND accepted_at <= ${time.at(before)}`}
    ORDER BY accepted_at, id LIMIT ${limit} ${dialect.forUpdate} ${skipLocked}`);
  const ids = letters.map(([id]) => id);
  await run(sql`UPDATE rollcall.dead_letter SET reason = ${reason}, last_at = ${time.now}
    WHERE ${dialect.oneOf(raw('id'), 'id', ids)}`);
  for (const [, name, run] of letters) changes.add(name, run, { heldOut: -1, died: 1, untried: -1 });
  return letters.length;
}
