import { MESSAGE_TYPES } from '../../message.ts';
import { type AttemptFilter, type AttemptRecord, OUTCOMES } from '../port.ts';
import { Conditions } from './conditions.ts';
import { type Context, idName, idNumber } from './context.ts';
import { forget } from './seen.ts';

type AttemptRow = readonly [
  ago: number,
  delivery: number,
  destination: string,
  endpoint: string,
  source: string,
  type: number,
  messageId: string,
  userId: string | null,
  outcome: number,
  status: number | null,
  ms: number,
  error: string | null,
  response: string | null,
];

/** Newest first. */
export async function attempts(context: Context, filter: AttemptFilter): Promise<AttemptRecord[]> {
  const { db } = context;
  const conditions = new Conditions()
    .add('destination = ?', filter.destination)
    .add('endpoint = ?', filter.endpoint)
    .add('delivery = ?', filter.delivery === undefined ? undefined : idNumber(context, filter.delivery))
    .add('message_id = ?', filter.messageId)
    .add('user_id = ?', filter.userId)
    .add('outcome = ?', filter.outcome && OUTCOMES.indexOf(filter.outcome))
    .add(`at >= ${db.now} + ?::bigint`, filter.since === undefined ? undefined : db.fromWallNow(filter.since));
  const rows = await db.rows<AttemptRow>(
    `SELECT at - ${db.now}, delivery, destination, endpoint, source, type, message_id, user_id, outcome, status, ms, error, response
     FROM rollcall.attempt ${conditions.where()} ORDER BY id DESC LIMIT ${conditions.parameter(filter.limit)}`,
    conditions.values,
  );
  return rows.map(([ago, delivery, destination, endpoint, source, type, messageId, userId, outcome, ...rest]) => ({
    delivery: idName(context, delivery),
    destination,
    endpoint,
    source,
    type: MESSAGE_TYPES[type] as AttemptRecord['type'],
    userId,
    messageId,
    at: db.wall(ago),
    ms: rest[1],
    outcome: OUTCOMES[outcome] as AttemptRecord['outcome'],
    status: rest[0],
    error: rest[2],
    response: rest[3],
  }));
}

/** Attempts stand in the order of time, so the oldest have the smallest ids. */
export async function prune(context: Context, before: number, limit: number): Promise<number> {
  const { db } = context;
  const attemptsGone = await db.run(
    `DELETE FROM rollcall.attempt WHERE id = ANY (ARRAY(
       SELECT id FROM (SELECT id, at FROM rollcall.attempt ORDER BY id LIMIT $1) AS oldest WHERE at < ${db.now} + $2
     ))`,
    [limit, db.fromNow(before)],
  );
  return attemptsGone + (await forget(context, limit - attemptsGone));
}
