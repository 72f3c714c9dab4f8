import { MESSAGE_TYPES } from '../../message-types.ts';
import { type Confirmed, deletes, isOver, type NoticeConfirmation, type Regulation, type ToldPage } from '../port.ts';
import { join, raw, sql, where } from '../sql.ts';
import { userHash, usersIn } from '../users.ts';
import { closeDeletion, openDeletion } from './deletions.ts';
import type { Session } from './session.ts';
import { ALIAS, ofUsers, pageOf } from './traces.ts';

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
  const { userIds, ids, ...rest } = regulation;
  if (userIds.length === 0) return regulation;
  const hashes = (ids?.notified ?? userIds).map((user) => userHash(hashKey, '', user).toString('base64url'));
  return { ...rest, userIds: [], told: null, hashes };
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

type TraceRow = readonly [source: string, destination: string, type: number, user: string | null, alias: string | null];

export async function told(
  session: Session,
  users: readonly string[],
  sources: readonly string[] | null,
  cursor: string | null,
): Promise<ToldPage> {
  const { rows, dialect } = session;
  const { trace, range, next } = await pageOf(session, cursor);
  if (range === null) return { cursor: next, told: [] };
  const { table, isPosted, hasBody } = trace;
  const found = await rows<TraceRow>(sql`
    SELECT DISTINCT ${dialect.nameOf(raw('source'))}, ${dialect.nameOf(raw('destination'))}, type, user_id,
      ${hasBody ? sql`CASE WHEN type = ${ALIAS} THEN body END` : raw('NULL')} FROM rollcall.${raw(table)}
    WHERE ${range} AND ${raw(isPosted)} AND ${ofUsers(session, hasBody, users, sources)}`);
  const asked = new Set(users);
  return {
    cursor: next,
    told: found.flatMap(([source, destination, type, user, alias]) => {
      const theirs = alias === null ? [user] : usersIn(MESSAGE_TYPES[type], user, alias);
      return theirs.flatMap((user) => (user !== null && asked.has(user) ? [{ source, destination, user }] : []));
    }),
  };
}
