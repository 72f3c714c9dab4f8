import { MESSAGE_TYPES, type MessageType } from '../../message-types.ts';
import {
  type KeptMessage,
  type MessageFilter,
  type MessagePage,
  type MessageRecord,
  type MessageState,
  OUTCOMES,
} from '../port.ts';
import { raw, type Sql, sql, where } from '../sql.ts';
import { pruneOldest } from './prune-oldest.ts';
import type { Session } from './session.ts';

/** A table to search. Tables are searched in order, each from its newest row on. */
interface SearchedTable {
  readonly table: 'delivery' | 'dead_letter' | 'delivered' | 'attempt';
  readonly state: MessageState;
  /** Columns for the delivery's id and the time. */
  readonly delivery: string;
  readonly at: string;
  readonly hasBody: boolean;
  /** Rows scanned for one page: they are stored with their bodies. */
  readonly looks: number;
}

const PLACES: readonly SearchedTable[] = [
  { table: 'delivery', state: 'waiting', delivery: 'id', at: 'accepted_at', hasBody: true, looks: 10_000 },
  { table: 'dead_letter', state: 'dead', delivery: 'id', at: 'last_at', hasBody: true, looks: 10_000 },
  { table: 'delivered', state: 'delivered', delivery: 'delivery', at: 'at', hasBody: true, looks: 10_000 },
  // The log also has ids of messages whose bodies are not kept.
  { table: 'attempt', state: 'delivered', delivery: 'delivery', at: 'at', hasBody: false, looks: 50_000 },
];

interface Found {
  readonly row: number;
  readonly delivery: number;
  readonly message: MessageRecord;
}

export async function messagePage(
  session: Session,
  filter: MessageFilter,
  cursor: string | null,
): Promise<MessagePage> {
  const [table, from] = cursor?.split(':') ?? [];
  let start = from === undefined ? Number.MAX_SAFE_INTEGER : Number(from);
  const messages: MessageRecord[] = [];
  const places = PLACES.filter((place) => isWanted(place, filter));
  for (const place of places.slice(
    Math.max(
      0,
      places.findIndex((each) => each.table === table),
    ),
  )) {
    const limit = filter.limit - messages.length;
    const { found, next } = await lookInto(session, place, { ...filter, limit }, start);
    messages.push(...found);
    // Continue there with the next page.
    if (next !== null) return { messages, next: `${place.table}:${next}` };
    start = Number.MAX_SAFE_INTEGER;
    const following = places[places.indexOf(place) + 1];
    if (messages.length >= filter.limit && following) return { messages, next: `${following.table}:${start}` };
  }
  return { messages, next: null };
}

function isWanted({ state, hasBody }: SearchedTable, { state: wanted, event }: MessageFilter): boolean {
  // The attempt log has no event names.
  return (wanted === undefined || wanted === state) && (hasBody || event === undefined);
}

async function lookInto(session: Session, place: SearchedTable, filter: MessageFilter, start: number) {
  const { limit, event } = filter;
  const end = await endOfLook(session, place, filter, start);
  if (end === 'nothing') return { found: [], next: null };
  const matching = await matches(session, place, filter, start, end);
  const last = matching.length === limit ? (matching.at(-1)?.row ?? 0) - 1 : end === null ? null : end - 1;
  const own = place.hasBody ? matching : await onlyInLog(session, matching);
  const found = own.map(({ message }) => message).filter((message) => event === undefined || message.event === event);
  return { found, next: last === null || last <= 0 ? null : last };
}

/** The last row that a page scans, null if it scans all the rest. */
async function endOfLook(
  { rows }: Session,
  { table, looks }: SearchedTable,
  { userId, messageId }: MessageFilter,
  start: number,
): Promise<number | null | 'nothing'> {
  // An index finds these.
  if (table === 'delivered' && (userId ?? messageId) !== undefined) return null;
  const [part] = await rows<[last: number | null, count: number]>(sql`SELECT min(id), count(*) FROM (
    SELECT id FROM rollcall.${raw(table)} WHERE id <= ${start} ORDER BY id DESC LIMIT ${looks}) AS looked_at`);
  const [last = null, count = 0] = part ?? [];
  if (last === null) return 'nothing';
  return count === looks ? last : null;
}

async function matches(
  session: Session,
  place: SearchedTable,
  filter: MessageFilter,
  start: number,
  end: number | null,
): Promise<Found[]> {
  const { rows, dialect, time, ids } = session;
  const { table, state, hasBody } = place;
  const at = raw(place.at);
  const body = hasBody ? sql`CASE WHEN type = ${TRACK} OR conflict IS NOT NULL THEN body END` : raw('NULL');
  const found = await rows<[number, number, string, string, number, string, string | null, number, string | null]>(sql`
    SELECT id, ${raw(place.delivery)}, ${dialect.nameOf(raw('destination'))}, ${dialect.nameOf(raw('source'))}, type, message_id, user_id,
      ${time.read(at)}, ${body}
    FROM rollcall.${raw(table)} ${conditionsOf(session, place, filter, start, end)} ORDER BY id DESC LIMIT ${filter.limit}`);
  return found.map(([row, delivery, destination, source, type, messageId, userId, at, body]) => ({
    row,
    delivery,
    message: {
      ...{ id: ids.name(delivery), messageId, source, type: MESSAGE_TYPES[type] as MessageType, ...said(body) },
      ...{ userId, destination, state, at: time.wall(at), kept: hasBody },
    },
  }));
}

const TRACK = MESSAGE_TYPES.indexOf('track');

/** The name of a track event, or the traits of a membership change. */
function said(body: string | null): Pick<MessageRecord, 'event' | 'traits'> {
  const { event, traits } = (body === null ? {} : JSON.parse(body)) as { event?: unknown; traits?: object };
  return typeof event === 'string' ? { event } : { event: null, ...(traits ? { traits } : {}) };
}

/** The last of several endpoints that took a delivery in one try: their rows are adjacent. */
const LAST_SUCCESS = sql`outcome = ${OUTCOMES.indexOf('success')} AND NOT EXISTS (
  SELECT 1 FROM rollcall.attempt AS other WHERE other.id > attempt.id AND other.id <= attempt.id + 5
    AND other.delivery = attempt.delivery AND other.outcome = ${OUTCOMES.indexOf('success')})`;

function conditionsOf(
  { dialect, time }: Session,
  { table, at }: SearchedTable,
  { userId, messageId, type, event, destination, since, until }: MessageFilter,
  start: number,
  end: number | null,
): Sql {
  return where(
    sql`id <= ${start}`,
    end === null ? null : sql`id >= ${end}`,
    table === 'attempt' ? LAST_SUCCESS : null,
    userId === undefined ? null : sql`user_id = ${userId}`,
    messageId === undefined ? null : sql`message_id = ${messageId}`,
    type === undefined ? null : sql`type = ${MESSAGE_TYPES.indexOf(type)}`,
    // Bodies are written by JSON.stringify; other bodies with this text are filtered out later.
    event === undefined ? null : sql`type = ${TRACK}`,
    event === undefined ? null : dialect.contains(raw('body'), `"event":${JSON.stringify(event)}`),
    destination === undefined ? null : sql`destination = ${dialect.name(destination)}`,
    since === undefined ? null : sql`${raw(at)} >= ${time.atWall(since)}`,
    until === undefined ? null : sql`${raw(at)} < ${time.atWall(until)}`,
  );
}

/** Each delivery once, without those found elsewhere: kept, or still pending for another endpoint. */
async function onlyInLog({ rows, dialect }: Session, matching: readonly Found[]): Promise<Found[]> {
  const byDelivery = new Map(matching.toReversed().map((found) => [found.delivery, found]));
  const among = (column: string) => dialect.oneOf(raw(column), 'id', [...byDelivery.keys()]);
  const elsewhere = await rows<[number]>(sql`
    SELECT delivery FROM rollcall.delivered WHERE ${among('delivery')}
    UNION ALL SELECT id FROM rollcall.delivery WHERE ${among('id')}
    UNION ALL SELECT id FROM rollcall.dead_letter WHERE ${among('id')}`);
  for (const [delivery] of elsewhere) byDelivery.delete(delivery);
  return [...byDelivery.values()].toReversed();
}

type KeptRow = readonly [
  destination: string,
  source: string,
  type: number,
  messageId: string,
  userId: string | null,
  at: number,
  acceptedAt: number,
  conflict: string | null,
  body: string,
];

export async function message({ rows, dialect, time, ids }: Session, id: string): Promise<KeptMessage | null> {
  const number = ids.number(id);
  for (const { table, state, delivery, at } of PLACES.filter(({ hasBody }) => hasBody)) {
    const [row] = await rows<KeptRow>(sql`
      SELECT ${dialect.nameOf(raw('destination'))}, ${dialect.nameOf(raw('source'))}, type, message_id, user_id,
        ${time.read(raw(at))}, ${time.read(raw('accepted_at'))}, conflict, body
      FROM rollcall.${raw(table)} WHERE ${raw(delivery)} = ${number}`);
    if (!row) continue;
    const [destination, source, type, messageId, userId, when, acceptedAt, conflict, body] = row;
    return {
      ...{ id, messageId, source, type: MESSAGE_TYPES[type] as MessageType, userId, destination, state, kept: true },
      ...{
        ...said(type === TRACK || conflict !== null ? body : null),
        at: time.wall(when),
        acceptedAt: time.wall(acceptedAt),
      },
      ...{ conflict, body },
    };
  }
  return null;
}

/** Includes messages delivered at exactly `until`: if nothing is kept, that is now. */
export async function pruneDelivered(session: Session, until: number, limit: number): Promise<number> {
  return (await pruneOldest(session, 'delivered', until + 1, limit)).count;
}
