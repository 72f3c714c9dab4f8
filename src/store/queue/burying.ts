import type { DeadReason } from '../../kernel/dead-reasons.ts';
import { CounterChanges } from '../changes.ts';
import type { EndpointMarks } from '../port.ts';
import { isUnknownFor } from '../records/fleet.ts';
import { listed } from '../records/listed.ts';
import { raw, sql } from '../sql.ts';
import { DELETION_LANE, NOTICE } from '../states.ts';
import { takenIn } from '../taken.ts';
import { giveUpHeldOut } from './held-out.ts';
import type { Name, QueueSession } from './session.ts';

export function expire(
  session: QueueSession,
  destination: string,
  before: number,
  untriedToo: boolean,
  limit: number,
  sparesNotices = false,
): Promise<number> {
  return session.transaction(async (session) => {
    const { time } = session;
    const changes = new CounterChanges<Name>();
    const ends = raw(sparesNotices ? `type <> ${NOTICE}` : 'true');
    const isOver = sql`due_at <= ${time.now} AND first_at <= ${time.at(before)} AND ${ends}`;
    const tried = (limit: number) => session.ready(destination, 'tried', limit, isOver);
    let ended = 0;
    for (const query of untriedToo ? [tried, ...session.waiting(destination, before, ends)] : [tried]) {
      if (ended < limit) ended += await buryAll(session, query(limit - ended), 'expired', changes);
    }
    if (untriedToo && ended < limit) {
      ended += await giveUpHeldOut(session, destination, 'expired', before, limit - ended, changes);
    }
    await session.write(changes);
    return ended;
  });
}

export function restNotices(session: QueueSession, destination: string, limit: number): Promise<number> {
  const begun = raw(`type = ${NOTICE} AND first_at IS NOT NULL`);
  return session.run(sql`UPDATE rollcall.delivery SET first_at = NULL
    WHERE ${session.dialect.among(raw('id'), session.ready(destination, 'tried', limit, begun))}`);
}

export function bury(
  session: QueueSession,
  destination: string,
  limit: number,
  unknownFor: number | null = null,
): Promise<number> {
  return session.transaction(async (session) => {
    if (unknownFor !== null && !(await isUnknownFor(session, destination, unknownFor))) return 0;
    const changes = new CounterChanges<Name>();
    const reason = 'destination_removed';
    let buried = await buryAll(session, session.ready(destination, 'all', limit), reason, changes);
    if (buried < limit) buried += await giveUpHeldOut(session, destination, reason, null, limit - buried, changes);
    await session.write(changes);
    return buried;
  });
}

/** Drops deletion notices of a removed destination: a letter would keep the user's id. */
async function buryAll(
  session: QueueSession,
  ready: ReturnType<typeof sql>,
  reason: DeadReason,
  changes: CounterChanges<Name>,
): Promise<number> {
  const { rows, run, dialect, time, lane } = session;
  const ids = (await rows<[number]>(ready)).map(([id]) => id);
  if (ids.length === 0) return 0;
  const these = dialect.oneOf(raw('id'), 'id', ids);
  const isDropped = (type: number) => type === NOTICE && reason === 'destination_removed';
  await run(sql`INSERT INTO rollcall.dead_letter
      (id, accepted_at, first_at, last_at, tries, lane, type, destination, source, message_id, user_id, run, conflict, reason, body)
    SELECT id, accepted_at, first_at, ${time.now}, tries, ${lane}, type, destination, source, message_id, user_id, run, conflict,
      CAST(${reason} AS text), body
    FROM rollcall.delivery WHERE ${these} ${raw(isDropped(NOTICE) ? `AND type <> ${NOTICE}` : '')}`);
  await keepTaken(session, ids);
  const gone = await rows<[destination: Name, run: Name | null, tries: number, lane: number, type: number]>(
    sql`DELETE FROM rollcall.delivery WHERE ${these} RETURNING destination, run, tries, ${lane}, type`,
  );
  for (const [destination, run, tries, lane, type] of gone) {
    if (isDropped(type)) session.leaveNoTrace();
    const untried = tries === 0 ? -1 : 0;
    const queued = lane === DELETION_LANE ? 0 : untried;
    changes.add(destination, run, { pending: -1, dead: isDropped(type) ? 0 : 1, queued, died: 1, untried });
  }
  return gone.length;
}

/** Copies into new letters which endpoints took the delivery; the deliveries still exist. */
async function keepTaken({ rows, run, dialect }: QueueSession, ids: readonly number[]): Promise<void> {
  const marked = await rows<[id: number, marks: string]>(sql`
    SELECT id, marks FROM rollcall.delivery WHERE marks IS NOT NULL AND ${dialect.oneOf(raw('id'), 'id', ids)}`);
  const taken = marked.map(([id, marks]) => [id, takenIn(JSON.parse(marks) as EndpointMarks)] as const);
  if (taken.length === 0) return;
  const { from, number, text } = listed(dialect, taken);
  await run(sql`UPDATE rollcall.dead_letter SET taken = v.taken
    FROM (SELECT ${number(0)} AS letter, ${text(1)} AS taken FROM ${from}) AS v WHERE id = v.letter`);
}
