import { MESSAGE_TYPES } from '../../message.ts';
import type { DeadLetter, DeadLetterFilter, DeadReason, Replay } from '../port.ts';
import { READY } from '../states.ts';
import { int8, text } from './arrays.ts';
import { Conditions } from './conditions.ts';
import { type Context, idName, idNumber } from './context.ts';
import { addToBacklog, addToProgress } from './counters.ts';
import { isUnknownFor } from './fleet.ts';

type LetterRow = readonly [
  id: number,
  destination: string,
  source: string,
  type: number,
  userId: string | null,
  messageId: string,
  reason: DeadReason,
  status: number | null,
  attempts: number,
  first: number | null,
  last: number,
  body: string,
  conflict: string | null,
];

export async function deadLetters(context: Context, filter: DeadLetterFilter): Promise<DeadLetter[]> {
  const { db } = context;
  const time = (value: number | undefined) => (value === undefined ? undefined : db.fromWallNow(value));
  const conditions = new Conditions()
    .add('destination = ?', filter.destination)
    .add('source = ?', filter.source)
    .add('reason = ?', filter.reason)
    .add('type = ?', filter.type && MESSAGE_TYPES.indexOf(filter.type))
    .add('user_id = ?', filter.userId)
    .add(`last_at >= ${db.now} + ?::bigint`, time(filter.since))
    .add(`last_at < ${db.now} + ?::bigint`, time(filter.until))
    .add('id > ?', filter.after === undefined ? undefined : idNumber(context, filter.after))
    .add('left(conflict, length(?)) = ?', filter.conflictPrefix)
    .add('id = ANY (?::bigint[])', filter.ids && int8(filter.ids, (id) => idNumber(context, id)));
  const rows = await db.rows<LetterRow>(
    `SELECT id, destination, source, type, user_id, message_id, reason, status, tries, first_at - ${db.now},
       last_at - ${db.now}, body, conflict
     FROM rollcall.dead_letter ${conditions.where()} ORDER BY id LIMIT ${conditions.parameter(filter.limit)}`,
    conditions.values,
  );
  return rows.map(
    ([id, destination, source, type, userId, messageId, reason, status, attempts, first, last, ...rest]) => ({
      id: idName(context, id),
      destination,
      source,
      type: MESSAGE_TYPES[type] as DeadLetter['type'],
      userId,
      messageId,
      reason,
      status,
      attempts,
      firstAt: db.wall(first),
      lastAt: db.wall(last),
      body: rest[0],
      conflict: rest[1],
    }),
  );
}

/**
 * A changed body gets a new id, since receivers take the same id for the same message. The letters are deleted first: an
 * accept of a newer change waits for that, or was before and has deleted them.
 */
const replaySql = (now: string) => `
WITH gone AS (
  DELETE FROM rollcall.dead_letter d USING unnest($1::bigint[], $2::text[]) AS r (id, body)
  WHERE d.id = r.id RETURNING d.*, r.body AS new_body
), wanted AS (
  SELECT * FROM gone WHERE conflict IS NULL OR NOT EXISTS (
    SELECT 1 FROM rollcall.delivery o WHERE o.conflict = gone.conflict AND o.destination = gone.destination)
), queued AS (
  INSERT INTO rollcall.delivery
    (id, destination, turn, state, due_at, tries, type, source, message_id, user_id, accepted_at, conflict, body)
  SELECT CASE WHEN new_body IS NULL THEN id ELSE nextval(pg_get_serial_sequence('rollcall.delivery', 'id')) END,
    destination, lane, ${READY}, ${now}, 0, type, source, message_id, user_id, ${now}, conflict, coalesce(new_body, body)
  FROM wanted RETURNING destination
), counted AS (${addToBacklog(
  '$3::smallint',
  `SELECT destination, sum(pending), sum(dead) FROM (
     SELECT destination, 1 AS pending, 0 AS dead FROM queued UNION ALL SELECT destination, 0, -1 FROM gone
   ) AS c GROUP BY destination`,
)})
SELECT count(*) FROM queued`;

export async function replay(context: Context, replays: readonly Replay[]): Promise<number> {
  const byId = new Map(replays.map(({ id, body }) => [idNumber(context, id), body]));
  const [row] = await context.db.transaction((session) =>
    session.rows<[number]>(replaySql(context.db.now), [
      int8([...byId.keys()]),
      text([...byId.values()]),
      context.parts.settle,
    ]),
  );
  return row?.[0] ?? 0;
}

const DROP = `
WITH gone AS (DELETE FROM rollcall.dead_letter WHERE id = ANY ($1::bigint[]) RETURNING destination),
counted AS (${addToBacklog('$2::smallint', 'SELECT destination, 0, -count(*) FROM gone GROUP BY destination')})
SELECT count(*) FROM gone`;

export async function drop(context: Context, ids: readonly string[]): Promise<number> {
  const numbers = int8(ids, (id) => idNumber(context, id));
  const [row] = await context.db.rows<[number]>(DROP, [numbers, context.parts.settle]);
  return row?.[0] ?? 0;
}

/** Makes dead letters of ready deliveries; `ids` is a query for them, its first parameters $3 and $4. */
const burySql = (now: string, ids: string) => `
WITH gone AS (
  DELETE FROM rollcall.delivery WHERE id = ANY (ARRAY(${ids} FOR UPDATE SKIP LOCKED)) AND state = ${READY} RETURNING *
), buried AS (
  INSERT INTO rollcall.dead_letter
    (id, first_at, last_at, tries, lane, type, destination, source, message_id, user_id, run, conflict, reason, body)
  SELECT id, first_at, ${now}, tries, turn % 3, type, destination, source, message_id, user_id, run, conflict, $1, body
  FROM gone
), counted AS (${addToBacklog('$2::smallint', 'SELECT destination, -count(*), count(*) FROM gone GROUP BY destination')}
), progressed AS (${addToProgress(
  '$2::smallint',
  'SELECT run, 0, -count(*) FILTER (WHERE tries = 0), 0, count(*), 0 FROM gone WHERE run IS NOT NULL GROUP BY run',
)})
SELECT count(*) FROM gone`;

const READY_ONES = `SELECT id FROM rollcall.delivery WHERE state = ${READY} AND destination = $3`;

export function bury({ db, parts }: Context, destination: string, limit: number, unknownFor?: number): Promise<number> {
  const sql = burySql(db.now, `${READY_ONES} LIMIT $4`);
  return db.transaction(async (session) => {
    if (unknownFor !== undefined && !(await isUnknownFor(session, destination, unknownFor))) return 0;
    const [row] = await session.rows<[number]>(sql, ['destination_removed', parts.settle, destination, limit]);
    return row?.[0] ?? 0;
  });
}

export async function expire(
  { db, parts }: Context,
  destination: string,
  before: number,
  untriedToo: boolean,
  limit: number,
): Promise<number> {
  const tried = `${READY_ONES} AND turn IN (3, 4, 5) AND due_at <= ${db.now} AND first_at <= ${db.now} + $5 LIMIT $4`;
  const untried = `${READY_ONES} AND turn IN (0, 1, 2) AND due_at <= ${db.now} + $5 LIMIT $4`;
  let ended = 0;
  for (const ids of untriedToo ? [tried, untried] : [tried]) {
    const values = ['expired', parts.settle, destination, limit - ended, db.fromNow(before)];
    const [row] = await db.rows<[number]>(burySql(db.now, ids), values);
    ended += row?.[0] ?? 0;
  }
  return ended;
}
