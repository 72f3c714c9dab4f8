import type { DeadReason } from '../../kernel/dead-reasons.ts';
import { MESSAGE_TYPES, type MessageType } from '../../message-types.ts';
import type { DeadLetter, DeadLetterFilter, DeadLetterPage } from '../port.ts';
import { raw, type Sql, sql, where } from '../sql.ts';
import { usersIn } from '../users.ts';
import { beingDeleted, holdEpoch } from './deletions.ts';
import type { Session } from './session.ts';

type LetterRow = readonly [
  id: number,
  destination: string,
  source: string,
  type: number,
  userId: string | null,
  messageId: string,
  reason: DeadReason,
  status: number | null,
  tries: number,
  firstAt: number | null,
  lastAt: number,
  body: string,
  conflict: string | null,
];

/** Letters scanned for one page: they are stored with their bodies. */
const LOOKED_AT = 10_000;

/** In order of id. */
export function deadLetters(session: Session, filter: DeadLetterFilter): Promise<DeadLetter[]> {
  const { after } = filter;
  const range = after === undefined ? null : sql`id > ${session.ids.number(after)}`;
  return found(session, filter, range, raw('ASC'));
}

/** One statement, since between two a replayed letter would be in neither table. */
export async function hasUndelivered({ rows, dialect }: Session, conflictPrefix: string): Promise<boolean> {
  const isOfThese = dialect.startsWith(raw('conflict'), conflictPrefix);
  const found = await rows(sql`
    SELECT 1 WHERE EXISTS (SELECT 1 FROM rollcall.delivery WHERE ${isOfThese})
      OR EXISTS (SELECT 1 FROM rollcall.dead_letter WHERE ${isOfThese})`);
  return found.length > 0;
}

export async function deadLetterPage(
  session: Session,
  filter: DeadLetterFilter,
  newestFirst: boolean,
): Promise<DeadLetterPage> {
  const { rows, ids } = session;
  const order = raw(newestFirst ? 'DESC' : 'ASC');
  const isBehind = raw(newestFirst ? '<' : '>');
  const behind = filter.after === undefined ? raw('true') : sql`id ${isBehind} ${ids.number(filter.after)}`;
  const [end] = await rows<[last: number | null, count: number]>(sql`
    SELECT ${raw(newestFirst ? 'min' : 'max')}(id), count(*) FROM (
      SELECT id FROM rollcall.dead_letter WHERE ${behind} ORDER BY id ${order} LIMIT ${LOOKED_AT}) AS looked_at`);
  const [last = null, count = 0] = end ?? [];
  if (last === null) return { letters: [], next: null };
  const range = sql`${behind} AND NOT id ${isBehind} ${last}`;
  const letters = await found(session, filter, range, order);
  if (letters.length === filter.limit) return { letters, next: letters.at(-1)?.id ?? null };
  return { letters, next: count === LOOKED_AT ? ids.name(last) : null };
}

async function found(session: Session, filter: DeadLetterFilter, range: Sql | null, order: Sql): Promise<DeadLetter[]> {
  const { rows, dialect, time, ids } = session;
  const name = (column: string) => dialect.nameOf(raw(column));
  const matching = await rows<LetterRow>(sql`
    SELECT id, ${name('destination')}, ${name('source')}, type, user_id, message_id, reason, status, tries,
      ${time.read(raw('first_at'))}, ${time.read(raw('last_at'))}, body, conflict
    FROM rollcall.dead_letter ${conditionsOf(session, filter, range)} ORDER BY id ${order} LIMIT ${filter.limit}`);
  return matching.map((row) => {
    const [id, destination, source, type, userId, messageId, reason, status, tries, firstAt, lastAt, ...rest] = row;
    const [body, conflict] = rest;
    return {
      ...{ id: ids.name(id), destination, source, type: MESSAGE_TYPES[type] as MessageType, userId, messageId, reason },
      ...{ status, attempts: tries, firstAt: firstAt === null ? null : time.wall(firstAt) },
      ...{ lastAt: time.wall(lastAt), body, conflict },
    };
  });
}

function conditionsOf({ dialect, time, ids }: Session, filter: DeadLetterFilter, range: Sql | null): Sql {
  const { ids: only, destination, source, reason, type, userId, conflictPrefix, conflicts, since, until } = filter;
  return where(
    range,
    only === undefined
      ? null
      : dialect.oneOf(
          raw('id'),
          'id',
          only.map((id) => ids.number(id)),
        ),
    destination === undefined ? null : sql`destination = ${dialect.name(destination)}`,
    source === undefined ? null : sql`source = ${dialect.name(source)}`,
    reason === undefined ? null : sql`reason = ${reason}`,
    type === undefined ? null : sql`type = ${MESSAGE_TYPES.indexOf(type)}`,
    userId === undefined ? null : sql`user_id = ${userId}`,
    conflictPrefix === undefined ? null : dialect.startsWith(raw('conflict'), conflictPrefix),
    conflicts === undefined ? null : dialect.oneOf(raw('conflict'), 'text', conflicts),
    since === undefined ? null : sql`last_at >= ${time.atWall(since)}`,
    until === undefined ? null : sql`last_at < ${time.atWall(until)}`,
  );
}

/**
 * Ids of letters whose users are being deleted: they stay where the deletion finds them. No other deletion begins until
 * the transaction ends.
 */
export function lettersBeingDeleted(session: Session, ids: readonly number[]): Promise<ReadonlySet<number>> {
  return rowsBeingDeleted(session, 'dead_letter', 'id', ids);
}

/** As `lettersBeingDeleted`, for another table. */
export async function rowsBeingDeleted(
  session: Session,
  table: 'dead_letter' | 'delivered',
  key: 'id' | 'delivery',
  ids: readonly number[],
): Promise<ReadonlySet<number>> {
  const { rows, dialect } = session;
  await holdEpoch(session);
  const open = await rows(sql`SELECT 1 FROM rollcall.deletion WHERE is_open = 1 LIMIT 1`);
  if (open.length === 0) return new Set();
  const found = await rows<[number, string, number, string | null, string]>(sql`
    SELECT ${raw(key)}, ${dialect.nameOf(raw('source'))}, type, user_id, body FROM rollcall.${raw(table)}
    WHERE ${dialect.oneOf(raw(key), 'id', ids)}`);
  const subjects = found
    .filter(([, , type]) => MESSAGE_TYPES[type] !== 'delete')
    .map(([id, source, type, user, body]) => ({ id, source, users: usersIn(MESSAGE_TYPES[type], user, body) }));
  return beingDeleted(session, subjects);
}
