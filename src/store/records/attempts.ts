import { MESSAGE_TYPES, type MessageType } from '../../message-types.ts';
import { type AttemptFilter, type AttemptPage, type AttemptRecord, OUTCOMES, type Outcome } from '../port.ts';
import { raw, type Sql, sql, where } from '../sql.ts';
import type { Session } from './session.ts';

type AttemptRow = readonly [
  delivery: number,
  destination: string,
  endpoint: string,
  source: string,
  type: number,
  messageId: string,
  userId: string | null,
  at: number,
  ms: number,
  outcome: number,
  status: number | null,
  error: string | null,
  response: string | null,
];

/** Rows scanned for one page: some ten milliseconds' worth. */
const LOOKED_AT = 50_000;

/** Last logged first, which differs from the order of `at`. */
export async function attempts(session: Session, filter: AttemptFilter): Promise<AttemptRecord[]> {
  return (await found(session, filter, null)).map(([, record]) => record);
}

/** Scans one part of the log, unless it is about a user: rare matches are searched part by part. */
export async function attemptPage(session: Session, filter: AttemptFilter, from: number | null): Promise<AttemptPage> {
  const [newest] = await session.rows<[number | null]>(sql`SELECT max(id) FROM rollcall.attempt`);
  const highest = newest?.[0] ?? 0;
  const start = Math.min(from ?? (await firstPlace(session, filter.until, highest)), highest);
  const end = filter.userId === undefined ? start - LOOKED_AT : 0;
  const page = await found(session, filter, end === 0 ? sql`id <= ${start}` : sql`id <= ${start} AND id > ${end}`);
  const isFull = page.length === filter.limit;
  const last = isFull ? (page.at(-1)?.[0] ?? 0) - 1 : end;
  const older = await session.rows(sql`SELECT 1 FROM rollcall.attempt WHERE id <= ${last} LIMIT 1`);
  return { attempts: page.map(([, record]) => record), next: older.length > 0 ? last : null };
}

/** Start of a search before a moment. Rows are in order of time, except a few that were written late. */
async function firstPlace({ rows, time }: Session, until: number | undefined, highest: number): Promise<number> {
  if (until === undefined) return highest;
  let [low, high] = [0, highest];
  while (high - low > CLOSE) {
    const middle = Math.floor((low + high) / 2);
    const [row] = await rows<[number]>(
      sql`SELECT ${time.read(raw('at'))} FROM rollcall.attempt WHERE id >= ${middle} ORDER BY id LIMIT 1`,
    );
    if (row === undefined || time.wall(row[0]) >= until) high = middle;
    else low = middle;
  }
  return high + CLOSE;
}

const CLOSE = 1_000;

/** Rows that share a part of the index by user, so that new ones change few of its pages. */
const PART = 2_048;

/** One look into each part of the index. Those that exist are asked for: a restored store leaves out 2^40 ids. */
async function isOf({ rows, dialect }: Session, userId: string): Promise<Sql> {
  const parts = await rows<[number]>(sql`WITH RECURSIVE part (n) AS (
      SELECT min(id) / ${raw(String(PART))} FROM rollcall.attempt
      UNION ALL SELECT (SELECT min(id) / ${raw(String(PART))} FROM rollcall.attempt WHERE id >= (n + 1) * ${raw(String(PART))})
      FROM part WHERE n IS NOT NULL
    ) SELECT n FROM part WHERE n IS NOT NULL`);
  const numbers = parts.map(([part]) => part);
  return sql`${dialect.oneOf(raw(`(id / ${PART})`), 'id', numbers)} AND user_id = ${userId}`;
}

async function found(
  session: Session,
  filter: AttemptFilter,
  range: Sql | null,
): Promise<(readonly [id: number, AttemptRecord])[]> {
  const { rows, dialect, time, ids } = session;
  const { destination, endpoint, delivery, messageId, userId, outcome, since, until, limit } = filter;
  const conditions = where(
    range,
    destination === undefined ? null : sql`destination = ${dialect.name(destination)}`,
    endpoint === undefined ? null : sql`endpoint = ${dialect.name(endpoint)}`,
    delivery === undefined ? null : sql`delivery = ${ids.number(delivery)}`,
    messageId === undefined ? null : sql`message_id = ${messageId}`,
    userId === undefined ? null : await isOf(session, userId),
    outcome === undefined ? null : sql`outcome = ${OUTCOMES.indexOf(outcome)}`,
    since === undefined ? null : sql`at >= ${time.atWall(since)}`,
    until === undefined ? null : sql`at < ${time.atWall(until)}`,
  );
  const name = (column: string) => dialect.nameOf(raw(column));
  const matching = await rows<readonly [id: number, ...AttemptRow]>(sql`
    SELECT id, delivery, ${name('destination')}, ${name('endpoint')}, ${name('source')}, type, message_id, user_id,
      ${time.read(raw('at'))}, ms, outcome, status, error, response
    FROM rollcall.attempt ${conditions} ORDER BY id DESC LIMIT ${limit}`);
  return matching.map((row) => {
    const [id, delivery, destination, endpoint, source, type, messageId, userId, at, ms, outcome, status, ...rest] =
      row;
    const [error, response] = rest;
    return [
      id,
      {
        ...{ delivery: ids.name(delivery), destination, endpoint, source, messageId, userId, at: time.wall(at), ms },
        ...{ type: MESSAGE_TYPES[type] as MessageType, outcome: OUTCOMES[outcome] as Outcome, status, error, response },
      },
    ];
  });
}
