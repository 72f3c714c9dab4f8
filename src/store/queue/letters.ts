import type { DeadReason } from '../../kernel/dead-reasons.ts';
import { MESSAGE_TYPES } from '../../message-types.ts';
import { CounterChanges } from '../changes.ts';
import { LANES, type Replay } from '../port.ts';
import { lettersBeingDeleted, rowsBeingDeleted } from '../records/letters.ts';
import { listed } from '../records/listed.ts';
import { raw, sql } from '../sql.ts';
import { DELETION_LANE, READY } from '../states.ts';
import { queueHeldOut } from './held-out.ts';
import type { EntryPlace, Name, QueueSession } from './session.ts';

type Bodies = ReadonlyMap<number, string | null>;

const bodiesOf = ({ ids }: QueueSession, replays: readonly Replay[]): Bodies =>
  new Map(replays.map(({ id, body }) => [ids.number(id), body]));

export function replay(session: QueueSession, replays: readonly Replay[]): Promise<number> {
  const bodies = bodiesOf(session, replays);
  return session.transaction((session) => replayAll(session, bodies));
}

/** Replays letters, except those about users being deleted, which stay where the deletion finds them. */
async function replayAll(session: QueueSession, bodies: Bodies): Promise<number> {
  const { rows, dialect } = session;
  const out = await lettersBeingDeleted(session, [...bodies.keys()]);
  const asked = [...bodies.keys()].filter((id) => !out.has(id));
  const letters = await rows<[id: number, conflict: string | null, destination: Name, reason: DeadReason]>(sql`
    SELECT id, conflict, destination, reason FROM rollcall.dead_letter
    WHERE ${dialect.oneOf(raw('id'), 'id', asked)} ORDER BY id ${dialect.forUpdate}`);
  const newIds = await renew(
    session,
    letters.flatMap(([id]) => bodyOf(bodies, id)),
  );
  const renewed = letters.map(([id, ...others]) => [newIds.get(id) ?? id, ...others] as const);
  const changes = new CounterChanges<Name>();
  const heldOut = renewed.filter(([, , , reason]) => reason === 'queue_full');
  let queued = 0;
  for (const [destination, theirs] of Map.groupBy(heldOut, ([, , destination]) => destination)) {
    queued += await queueHeldOut(session, destination, theirs, changes);
  }
  const others = renewed.filter(([, , , reason]) => reason !== 'queue_full').map(([id]) => id);
  queued += await queueLetters(session, others, 'new', changes);
  await session.write(changes);
  return queued;
}

const bodyOf = (bodies: Bodies, id: number): (readonly [number, string])[] => {
  const body = bodies.get(id) ?? null;
  return body === null ? [] : [[id, body]];
};

/** Gives letters new bodies, which no endpoint has, and so new ids: receivers take the same id for the same message. */
async function renew(session: QueueSession, bodies: readonly (readonly [number, string])[]) {
  if (bodies.length === 0) return new Map<number, number>();
  const next = await session.newIds(bodies.length);
  const renewed = bodies.map(([id, body], place) => [id, next[place] as number, body] as const);
  const { from, number, text } = listed(session.dialect, renewed);
  await session.run(sql`UPDATE rollcall.dead_letter SET id = v.next, body = v.body, taken = NULL
    FROM (SELECT ${number(0)} AS former, ${number(1)} AS next, ${text(2)} AS body FROM ${from}) AS v
    WHERE id = v.former`);
  return new Map(renewed.map(([id, next]) => [id, next]));
}

const LIVE = LANES.indexOf('live');

/** Makes them letters for a moment, with new ids, and replays these. */
export function deliverAgain(session: QueueSession, replays: readonly Replay[]): Promise<number> {
  const bodies = bodiesOf(session, replays);
  return session.transaction(async (session) => {
    const { rows, dialect, time } = session;
    const out = await rowsBeingDeleted(session, 'delivered', 'delivery', [...bodies.keys()]);
    const asked = [...bodies].filter(([id]) => !out.has(id));
    if (asked.length === 0) return 0;
    const next = await session.newIds(asked.length);
    const { from, number, text } = listed(
      dialect,
      asked.map(([id, body], place) => [id, next[place] as number, body]),
    );
    const letters = await rows<[id: number, destination: Name]>(sql`
      INSERT INTO rollcall.dead_letter
        (id, accepted_at, last_at, tries, lane, type, destination, source, message_id, user_id, conflict, reason, body)
      SELECT v.next, d.accepted_at, ${time.now}, 0, ${raw(`${LIVE}`)}, d.type, d.destination, d.source, d.message_id, d.user_id,
        d.conflict, 'refused', coalesce(v.body, d.body)
      FROM (SELECT ${number(0)} AS id, ${number(1)} AS next, ${text(2)} AS body FROM ${from}) AS v
      JOIN rollcall.delivered AS d ON d.delivery = v.id
      RETURNING id, destination`);
    const changes = new CounterChanges<Name>();
    for (const [, destination] of letters) changes.add(destination, null, { dead: 1 });
    await session.write(changes);
    return replayAll(session, new Map(letters.map(([id]) => [id, null])));
  });
}

/** Requeues up to `limit` letters in order of acceptance, unchanged and in front of everything held since. */
export function resend(
  session: QueueSession,
  destination: string,
  from: number,
  after: string | null,
  limit: number,
): Promise<string | null> {
  return session.transaction(async (session) => {
    const { rows, dialect, time } = session;
    // A letter with a new body has a new id, so only the time shows the order of acceptance.
    const [acceptedAt = -1, id = -1] = after?.split(':').map(Number) ?? [];
    const letters = await rows<[id: number, acceptedAt: number]>(sql`
      SELECT id, accepted_at FROM rollcall.dead_letter ${dialect.using('dead_letter_denied')}
      WHERE destination = ${dialect.name(destination)} AND marks IS NOT NULL AND (accepted_at, id) > (${acceptedAt}, ${id})
        AND last_at >= ${time.at(from)}
      ORDER BY accepted_at, id LIMIT ${limit} ${dialect.forUpdate}`);
    const ids = letters.map(([id]) => id);
    const out = await lettersBeingDeleted(session, ids);
    const changes = new CounterChanges<Name>();
    const wanted = ids.filter((id) => !out.has(id));
    await queueLetters(session, wanted, 'in front', changes);
    await session.write(changes);
    const last = letters.at(-1);
    return last === undefined || letters.length < limit ? null : `${last[1]}:${last[0]}`;
  });
}

/** SQL condition: a newer change of the letter's key is queued, held out, or among these. */
const hasNewer = (these: ReturnType<typeof sql>) => sql`EXISTS (
    SELECT 1 FROM rollcall.delivery AS o WHERE o.conflict = l.conflict AND o.destination = l.destination)
  OR EXISTS (
    SELECT 1 FROM rollcall.dead_letter AS o WHERE o.conflict = l.conflict AND o.destination = l.destination
      AND (o.reason = 'queue_full' OR (o.id > l.id AND ${these})))`;

/**
 * Queues letters that were not held out; those with a newer change are dropped. They are locked already: an accept of a
 * newer change waits until they are removed, or was earlier and is visible now.
 */
async function queueLetters(
  session: QueueSession,
  ids: readonly number[],
  at: Extract<EntryPlace, 'new' | 'in front'>,
  changes: CounterChanges<Name>,
): Promise<number> {
  if (ids.length === 0) return 0;
  const { rows, dialect, time, entryColumns, lane } = session;
  const these = (column: string) => dialect.oneOf(raw(column), 'id', ids);
  const times =
    at === 'new' ? sql`${time.now}, NULL, l.taken` : raw("l.accepted_at, l.first_at, nullif(l.marks, '{}')");
  const queued = await rows<[destination: Name, lane: number]>(sql`
    INSERT INTO rollcall.delivery
      (id, destination, ${entryColumns}, state, tries, type, source, message_id, user_id, conflict, body, accepted_at, first_at, marks)
    SELECT l.id, l.destination, ${session.entry(at)}, ${raw(`${READY}`)}, 0, l.type, l.source, l.message_id, l.user_id, l.conflict, l.body,
      ${times}
    FROM rollcall.dead_letter AS l WHERE ${these('l.id')} AND NOT (${hasNewer(these('o.id'))})
    RETURNING destination, ${lane}`);
  for (const [destination, lane] of queued) {
    changes.add(destination, null, { pending: 1, queued: lane === DELETION_LANE ? 0 : 1 });
  }
  const gone = await rows<[Name]>(sql`DELETE FROM rollcall.dead_letter WHERE ${these('id')} RETURNING destination`);
  for (const [destination] of gone) changes.add(destination, null, { dead: -1 });
  return queued.length;
}

export function drop(session: QueueSession, ids: readonly string[]): Promise<number> {
  const numbers = ids.map((id) => session.ids.number(id));
  return session.transaction(async (session) => {
    const changes = new CounterChanges<Name>();
    const dropped = await session.rows<[Name, Name | null, DeadReason, type: number]>(sql`
      DELETE FROM rollcall.dead_letter WHERE ${session.dialect.oneOf(raw('id'), 'id', numbers)}
      RETURNING destination, run, reason, type`);
    for (const [destination, run, reason, type] of dropped) {
      if (MESSAGE_TYPES[type] === 'delete') session.leaveNoTrace();
      changes.letterGone(destination, run, reason, 'died');
    }
    await session.write(changes);
    return dropped.length;
  });
}
