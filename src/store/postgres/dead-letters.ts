import { MESSAGE_TYPES } from '../../message-types.ts';
import { LANES, type Replay } from '../port.ts';
import { isUnknownFor } from '../records/fleet.ts';
import { lettersBeingDeleted, rowsBeingDeleted } from '../records/letters.ts';
import { READY } from '../states.ts';
import { int8, text } from './arrays.ts';
import type { Context } from './context.ts';
import { counting, HELD_OUT_ONES, QUEUED_ONES, UNTRIED_ONES } from './counters.ts';
import type { Cursors } from './cursors.ts';
import type { Session } from './database.ts';
import { giveUpHeldOut, type Letter, queueAgain } from './held-out.ts';
import { again, isAgain, rankArray, TRIED, UNTRIED } from './ranks.ts';
import { sessionOf } from './session.ts';

const LIVE = LANES.indexOf('live');

/** Of the letters that are gone, those to queue again: the others have a newer change of their key. */
const WANTED = `wanted AS (
  SELECT * FROM gone WHERE conflict IS NULL OR NOT EXISTS (
    SELECT 1 FROM rollcall.delivery o WHERE o.conflict = gone.conflict AND o.destination = gone.destination
    UNION ALL
    SELECT 1 FROM rollcall.dead_letter o
    WHERE o.conflict = gone.conflict AND o.destination = gone.destination AND o.reason = 'queue_full')
)`;

/** Counts what left the letters (`gone`) and what is in the queue again (`queued`). */
const queuedAgain = (now: string, part: string) => `both_kinds AS (
  SELECT destination, rank, true AS is_queued FROM queued UNION ALL SELECT destination, NULL, false FROM gone
), ${counting(now, part, 'both_kinds', {
  pending: 'count(*) FILTER (WHERE is_queued)',
  queued: QUEUED_ONES,
  dead: '-count(*) FILTER (WHERE NOT is_queued)',
})}`;

/**
 * A changed body gets a new id, since receivers take the same id for the same message. The letters are deleted first: an
 * accept of a newer change waits for that, or was before and has deleted them.
 */
const replaySql = (now: string) => `
WITH gone AS (
  DELETE FROM rollcall.dead_letter d USING unnest($1::bigint[], $2::text[]) AS r (id, body)
  WHERE d.id = r.id AND d.reason <> 'queue_full' RETURNING d.*, r.body AS new_body
), ${WANTED}, queued AS (
  INSERT INTO rollcall.delivery
    (id, destination, rank, state, due_at, tries, type, source, message_id, user_id, accepted_at, conflict, body)
  SELECT CASE WHEN new_body IS NULL THEN id ELSE nextval(pg_get_serial_sequence('rollcall.delivery', 'id')) END,
    destination, lane, ${READY}, ${now}, 0, type, source, message_id, user_id, ${now}, conflict, coalesce(new_body, body)
  FROM wanted RETURNING destination, rank
), ${queuedAgain(now, '$3::bigint')}
SELECT count(*) FROM queued`;

export async function replay(context: Context, replays: readonly Replay[]): Promise<number> {
  const byId = new Map(replays.map(({ id, body }) => [context.ids.number(id), body]));
  return context.db.transaction((session) => replayWithin(context, session, byId));
}

async function replayWithin(
  context: Context,
  session: Session,
  replays: ReadonlyMap<number, string | null>,
): Promise<number> {
  const byId = new Map(replays);
  const out = await lettersBeingDeleted(sessionOf(context, session), [...byId.keys()]);
  for (const id of out) byId.delete(id);
  const heldOut = await replayHeldOut(context, session, byId);
  const values = [int8([...byId.keys()]), text([...byId.values()]), context.parts.settle];
  const [row] = await session.rows<[number]>(replaySql(context.db.now), values);
  return heldOut + (row?.[0] ?? 0);
}

/** They become letters for the moment, with new ids. */
const letteredSql = (now: string) => `
WITH lettered AS (
  INSERT INTO rollcall.dead_letter
    (id, accepted_at, last_at, tries, lane, type, destination, source, message_id, user_id, conflict, reason, body)
  SELECT nextval(pg_get_serial_sequence('rollcall.delivery', 'id')), d.accepted_at, ${now}, 0, ${LIVE}, d.type, d.destination,
    d.source, d.message_id, d.user_id, d.conflict, 'refused', coalesce(r.body, d.body)
  FROM unnest($1::bigint[], $2::text[]) AS r (id, body) JOIN rollcall.delivered d ON d.delivery = r.id
  RETURNING id, destination
), ${counting(now, '$3::bigint', 'lettered', { dead: 'count(*)' })}
SELECT id FROM lettered`;

export function deliverAgain(context: Context, replays: readonly Replay[]): Promise<number> {
  return context.db.transaction(async (session) => {
    const byId = new Map(replays.map(({ id, body }) => [context.ids.number(id), body]));
    const out = await rowsBeingDeleted(sessionOf(context, session), 'delivered', 'delivery', [...byId.keys()]);
    for (const id of out) byId.delete(id);
    const values = [int8([...byId.keys()]), text([...byId.values()]), context.parts.settle];
    const letters = await session.rows<[number]>(letteredSql(context.db.now), values);
    return replayWithin(context, session, new Map(letters.map(([id]) => [id, null])));
  });
}

/** Held-out letters are newer than the queue, and still belong to their runs. */
async function replayHeldOut(context: Context, session: Session, byId: ReadonlyMap<number, string | null>) {
  const letters = await session.rows<[...Letter, destination: string]>(
    `SELECT id, conflict, destination FROM rollcall.dead_letter WHERE id = ANY ($1::bigint[]) AND reason = 'queue_full'`,
    [int8([...byId.keys()])],
  );
  const renewed = letters.flatMap(([id]) => byId.get(id) ?? []).length > 0 ? await renew(session, byId) : new Map();
  let queued = 0;
  for (const [destination, theirs] of Map.groupBy(letters, ([, , name]) => name)) {
    const named = theirs.map(([id, conflict]): Letter => [renewed.get(id) ?? id, conflict]);
    queued += await queueAgain(context, session, destination, named, context.parts.settle);
  }
  return queued;
}

/** Gives letters other bodies, and so new ids; those by their former ones. */
async function renew(session: Session, byId: ReadonlyMap<number, string | null>): Promise<Map<number, number>> {
  const changed = [...byId].filter(([, body]) => body !== null);
  const rows = await session.rows<[number, number]>(
    `WITH r AS MATERIALIZED (
       SELECT r.id, nextval(pg_get_serial_sequence('rollcall.delivery', 'id')) AS next, r.body
       FROM unnest($1::bigint[], $2::text[]) AS r (id, body)
     )
     UPDATE rollcall.dead_letter d SET id = r.next, body = r.body FROM r
     WHERE d.id = r.id AND d.reason = 'queue_full' RETURNING r.id, r.next`,
    [int8(changed, ([id]) => id), text(changed, ([, body]) => body)],
  );
  return new Map(rows);
}

/** Letters are claimed in the order of acceptance, before all that was held since. */
const resendSql = (now: string) => `
WITH gone AS (
  DELETE FROM rollcall.dead_letter WHERE id = ANY ($1::bigint[]) RETURNING *
), ${WANTED}, queued AS (
  INSERT INTO rollcall.delivery
    (id, destination, rank, state, due_at, tries, type, source, message_id, user_id, accepted_at, first_at, conflict, marks, body)
  SELECT id, destination, ${again('lane')}, ${READY}, ${now}, 0, type, source, message_id, user_id, accepted_at, first_at,
    conflict, nullif(marks, '{}'), body
  FROM wanted ORDER BY accepted_at, id RETURNING destination, rank
), ${queuedAgain(now, '$2::bigint')}
SELECT count(*) FROM queued`;

export function resend(
  context: Context,
  destination: string,
  from: number,
  after: string | null,
  limit: number,
): Promise<string | null> {
  const { db, parts } = context;
  return db.transaction(async (session) => {
    // Ids are given out to processes in advance: only the time tells what was accepted first.
    const [acceptedAt = '-1', id = '-1'] = after?.split(':') ?? [];
    const rows = await session.rows<[number, number]>(
      `SELECT id, accepted_at FROM rollcall.dead_letter
       WHERE destination = $1 AND marks IS NOT NULL AND (accepted_at, id) > ($2::bigint, $3::bigint)
         AND last_at >= ${db.now} + $4::bigint
       ORDER BY accepted_at, id LIMIT $5`,
      [destination, acceptedAt, id, db.fromNow(from), limit],
    );
    const ids = rows.map(([id]) => id);
    const out = await lettersBeingDeleted(sessionOf(context, session), ids);
    const wanted = ids.filter((id) => !out.has(id));
    if (wanted.length > 0) await session.rows(resendSql(db.now), [int8(wanted), parts.settle]);
    const last = rows.at(-1);
    return last === undefined || rows.length < limit ? null : `${last[1]}:${last[0]}`;
  });
}

const dropSql = (now: string) => `
WITH gone AS (
  DELETE FROM rollcall.dead_letter WHERE id = ANY ($1::bigint[]) RETURNING destination, run, reason
), ${counting(now, '$2::bigint', 'gone', {
  dead: '-count(*)',
  heldOut: `-${HELD_OUT_ONES}`,
  untried: `-${HELD_OUT_ONES}`,
  died: HELD_OUT_ONES,
})}
SELECT count(*) FROM gone`;

export async function drop(context: Context, ids: readonly string[]): Promise<number> {
  const numbers = int8(ids, (id) => context.ids.number(id));
  const [row] = await context.db.rows<[number]>(dropSql(context.db.now), [numbers, context.parts.settle]);
  return row?.[0] ?? 0;
}

const DELETE_TYPE = MESSAGE_TYPES.indexOf('delete');
const IS_DROPPED = `(type = ${DELETE_TYPE} AND $1 = 'destination_removed')`;

/**
 * Makes dead letters of ready deliveries; `ids` is a query for them, its first parameters $3 to $5. Of a destination that
 * is gone, notices of deletions are dropped: a letter would keep the user's id.
 */
const burySql = (now: string, ids: string) => `
WITH gone AS (
  DELETE FROM rollcall.delivery WHERE id = ANY (ARRAY(${ids})) AND state = ${READY} RETURNING *
), buried AS (
  INSERT INTO rollcall.dead_letter
    (id, accepted_at, first_at, last_at, tries, lane, type, destination, source, message_id, user_id, run, conflict, reason, body)
  SELECT id, accepted_at, first_at, ${now}, tries, rank % 3, type, destination, source, message_id, user_id, run, conflict, $1, body
  FROM gone WHERE NOT ${IS_DROPPED}
), ${counting(now, '$2::bigint', 'gone', {
  pending: '-count(*)',
  dead: `count(*) FILTER (WHERE NOT ${IS_DROPPED})`,
  queued: `-${QUEUED_ONES}`,
  untried: `-${UNTRIED_ONES}`,
  died: 'count(*)',
})}
SELECT count(*) FROM gone`;

/** A query for ready deliveries of a destination ($3) from its cursors ($5) on, $4 at most; they are locked. */
const readyOnes = (ranks: readonly number[], condition = 'true') => `
  SELECT r.id FROM unnest(${rankArray(ranks)}) AS t (rank), LATERAL (
    SELECT id FROM rollcall.delivery
    WHERE state = ${READY} AND destination = $3 AND rank = t.rank AND due_at >= ($5::bigint[])[t.rank + 1] AND ${condition}
    ORDER BY due_at LIMIT $4 FOR UPDATE SKIP LOCKED
  ) AS r LIMIT $4`;

const REST_NOTICES = `
UPDATE rollcall.delivery SET first_at = NULL WHERE type = $1::smallint AND state = $2::smallint AND id = ANY (ARRAY(
  ${readyOnes(TRIED, 'type = $1::smallint AND first_at IS NOT NULL')}))`;

export function restNotices({ db }: Context, cursors: Cursors, destination: string, limit: number): Promise<number> {
  return db.run(REST_NOTICES, [DELETE_TYPE, READY, destination, limit, int8(cursors.starts(destination))]);
}

export function bury(
  context: Context,
  cursors: Cursors,
  destination: string,
  limit: number,
  unknownFor?: number,
): Promise<number> {
  const { db, parts } = context;
  const sql = burySql(db.now, readyOnes([...UNTRIED, ...TRIED]));
  return db.transaction(async (session) => {
    if (unknownFor !== undefined && !(await isUnknownFor(sessionOf(context, session), destination, unknownFor))) {
      return 0;
    }
    const starts = int8(cursors.starts(destination));
    const [row] = await session.rows<[number]>(sql, ['destination_removed', parts.settle, destination, limit, starts]);
    const buried = row?.[0] ?? 0;
    if (buried === limit) return buried;
    return buried + (await giveUpHeldOut(context, session, destination, 'destination_removed', null, limit - buried));
  });
}

export async function expire(
  context: Context,
  cursors: Cursors,
  destination: string,
  before: number,
  untriedToo: boolean,
  limit: number,
): Promise<number> {
  const { db, parts } = context;
  const old = `<= ${db.now} + $6`;
  const tried = readyOnes(TRIED, `due_at <= ${db.now} AND first_at ${old}`);
  const untried = readyOnes(
    UNTRIED.filter((rank) => !isAgain(rank)),
    `due_at ${old}`,
  );
  // Their due time is when they came back.
  const cameBack = readyOnes(UNTRIED.filter(isAgain), `accepted_at ${old}`);
  const starts = int8(cursors.starts(destination));
  let ended = 0;
  for (const ids of untriedToo ? [tried, untried, cameBack] : [tried]) {
    const values = ['expired', parts.settle, destination, limit - ended, starts, db.fromNow(before)];
    const [row] = await db.rows<[number]>(burySql(db.now, ids), values);
    ended += row?.[0] ?? 0;
  }
  if (!untriedToo || ended === limit) return ended;
  return ended + (await giveUpHeldOut(context, db, destination, 'expired', before, limit - ended));
}
