import { MESSAGE_TYPES } from '../../message-types.ts';
import { aliasNeedles, usersIn } from '../alias.ts';
import { type Confirmed, deletes, isOver, type NoticeConfirmation, type Regulation, type ToldPart } from '../port.ts';
import { join, raw, sql, where } from '../sql.ts';
import { userHash } from '../user-hash.ts';
import { closeDeletion, openDeletion } from './deletions.ts';
import type { Session } from './session.ts';

export function saveRegulation(session: Session, given: Regulation): Promise<void> {
  return session.transaction(async (session) => {
    if (deletes(given.type) && given.status === 'RUNNING') await openDeletion(session, given);
    if (isOver(given.status)) await closeDeletion(session, given.id);
    await write(session, isOver(given.status) ? stripped(session, given) : given);
  });
}

export async function stripRegulation(session: Session, id: string, notices?: Regulation['notices']): Promise<void> {
  const known = await regulation(session, id);
  if (known) await write(session, stripped(session, notices ? { ...known, notices } : known));
}

async function write({ run }: Session, regulation: Regulation): Promise<void> {
  const { id, status, createdAt } = regulation;
  await run(sql`INSERT INTO rollcall.regulation (id, status, created_at, record)
    VALUES (${id}, ${status}, ${createdAt}, ${JSON.stringify(regulation)})
    ON CONFLICT (id) DO UPDATE SET status = excluded.status, record = excluded.record`);
}

function stripped({ hashKey }: Session, regulation: Regulation): Regulation {
  const { userIds } = regulation;
  if (userIds.length === 0) return regulation;
  const hashes = userIds.map((user) => userHash(hashKey, '', user).toString('base64url'));
  return { ...regulation, userIds: [], told: null, hashes };
}

export async function regulation({ rows }: Session, id: string): Promise<Regulation | null> {
  const [row] = await rows<[string]>(sql`SELECT record FROM rollcall.regulation WHERE id = ${id}`);
  return row ? (JSON.parse(row[0]) as Regulation) : null;
}

export async function openRegulations({ rows }: Session): Promise<Regulation[]> {
  const found = await rows<[string]>(
    sql`SELECT record FROM rollcall.regulation WHERE status IN ('INITIALIZED', 'RUNNING') ORDER BY created_at`,
  );
  return found.map(([record]) => JSON.parse(record) as Regulation);
}

/** Newest first. */
export async function regulations(
  { rows }: Session,
  { before, limit }: { readonly before?: string; readonly limit: number },
): Promise<Regulation[]> {
  const older =
    before === undefined
      ? null
      : sql`(created_at, id) < (SELECT created_at, id FROM rollcall.regulation WHERE id = ${before})`;
  const found = await rows<[string]>(
    sql`SELECT record FROM rollcall.regulation ${where(older)} ORDER BY created_at DESC, id DESC LIMIT ${limit}`,
  );
  return found.map(([record]) => JSON.parse(record) as Regulation);
}

export async function confirmNotices({ run, time }: Session, given: readonly NoticeConfirmation[]): Promise<void> {
  if (given.length === 0) return;
  const values = given.map(
    ({ regulation, destination, notice, at }) => sql`(${regulation}, ${destination}, ${notice}, ${time.atWall(at)})`,
  );
  await run(sql`INSERT INTO rollcall.notice_confirmation (regulation, destination, notice, at)
    VALUES ${join(values, ', ')} ON CONFLICT (regulation, destination, notice) DO NOTHING`);
}

export async function confirmed({ rows, dialect, time }: Session, given: readonly string[]): Promise<Confirmed[]> {
  const found = await rows<[string, string, number, number]>(sql`
    SELECT regulation, destination, count(*), ${time.read(raw('max(at)'))} FROM rollcall.notice_confirmation
    WHERE ${dialect.oneOf(raw('regulation'), 'text', given)}
    GROUP BY regulation, destination ORDER BY regulation, destination`);
  return found.map(([regulation, destination, notices, at]) => ({
    regulation,
    destination,
    notices,
    at: time.wall(at),
  }));
}

/** Rows looked at in one call, so that others get their turn. */
const STEP = 20_000;
const NOTICE = MESSAGE_TYPES.indexOf('delete');
const ALIAS = MESSAGE_TYPES.indexOf('alias');

/**
 * Where it stands who was posted to. The log of attempts may go back less far than what is kept, and letters wait for a person.
 * Letters first: what is queued again meanwhile is found among the deliveries, and what is delivered behind them.
 */
const TRACES = [
  { table: 'dead_letter', isPosted: 'tries > 0', hasBody: true },
  { table: 'delivery', isPosted: 'tries > 0', hasBody: true },
  { table: 'delivered', isPosted: 'true', hasBody: true },
  { table: 'attempt', isPosted: 'true', hasBody: false },
] as const;

type TraceRow = readonly [source: string, destination: string, type: number, user: string | null, alias: string | null];

/** Destinations that got posts about these users. Tables are scanned by id: an index would cost every settlement. */
export async function told(
  { rows, dialect }: Session,
  users: readonly string[],
  sources: readonly string[] | null,
  cursor: string | null,
): Promise<ToldPart> {
  const [at, from = '0'] = cursor?.split(':') ?? [];
  const place = Math.max(
    0,
    TRACES.findIndex(({ table }) => table === at),
  );
  const { table, isPosted, hasBody } = TRACES[place] ?? TRACES[0];
  const [part] = await rows<[number | null, number]>(sql`SELECT max(id), count(*) FROM (
    SELECT id FROM rollcall.${raw(table)} WHERE id > ${Number(from)} ORDER BY id LIMIT ${STEP}) AS part`);
  const [end = null, count = 0] = part ?? [];
  const following = TRACES[place + 1]?.table;
  const next = count === STEP ? `${table}:${end}` : following === undefined ? null : `${following}:0`;
  if (end === null) return { cursor: next, told: [] };
  const source = dialect.nameOf(raw('source'));
  const isAlias = sql`type = ${ALIAS} AND EXISTS (
    SELECT 1 FROM ${dialect.rowsOf('text', aliasNeedles(users))} WHERE ${dialect.contains(raw('body'), raw('list.value'))})`;
  const found = await rows<TraceRow>(sql`
    SELECT DISTINCT ${source}, ${dialect.nameOf(raw('destination'))}, type, user_id,
      ${hasBody ? sql`CASE WHEN type = ${ALIAS} THEN body END` : raw('NULL')} FROM rollcall.${raw(table)}
    WHERE id > ${Number(from)} AND id <= ${end} AND type <> ${NOTICE} AND ${raw(isPosted)}
      AND (${dialect.oneOf(raw('user_id'), 'text', users)} ${hasBody ? sql`OR ${isAlias}` : raw('')})
      ${sources ? sql`AND ${dialect.oneOf(source, 'text', sources)}` : raw('')}`);
  const asked = new Set(users);
  return {
    cursor: next,
    told: found.flatMap(([source, destination, type, user, alias]) => {
      const theirs = alias === null ? [user] : usersIn(MESSAGE_TYPES[type], user, alias);
      return theirs.flatMap((user) => (user !== null && asked.has(user) ? [{ source, destination, user }] : []));
    }),
  };
}
