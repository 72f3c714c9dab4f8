import { isDeepStrictEqual } from 'node:util';
import type { LiveFill, LiveNamed, LiveRow, LiveState } from '../live.ts';
import { checkEpoch } from '../records/deletions.ts';
import { checkFence } from '../records/fence.ts';
import { listed } from '../records/listed.ts';
import type { Session } from '../records/session.ts';
import { raw, type Sql, sql } from '../sql.ts';
import { givenChanges, saveMembers } from './changes.ts';
import { liveMoved } from './source-states.ts';

/** The beginning of the raw id of a user; those of anonymous ids come before. */
const USER = 'u:';

export function fillState(session: Session, fill: LiveFill): Promise<void> {
  return session.transaction(async (session) => {
    const { fence, epoch, state, rows, changes, quiet, done, total } = fill;
    await checkFence(session, fence);
    await checkEpoch(session, epoch);
    await saveRows(session, state, rows);
    if (changes.length > 0) {
      const untold = changes.map((change) => ({ ...change, version: null }));
      await saveMembers(session, givenChanges(session, untold), quiet);
    }
    const due = rows.filter((row) => row.due !== null).length;
    await session.run(sql`UPDATE rollcall.live_source SET done = ${done}, total = ${total}, ids = ids + ${rows.length},
      due = due + ${due} WHERE state = ${state}`);
  });
}

const FOUND_ANEW = raw(`person = excluded.person, due = excluded.due, oldest = excluded.oldest,
      kept = excluded.kept, links = excluded.links`);
const CONTENTS = raw('kept = excluded.kept, links = excluded.links');

export function saveRows(session: Session, state: number, rows: readonly LiveRow[]): Promise<void> {
  return upsert(session, state, rows, FOUND_ANEW);
}

/** Rows that are there already, and are found as before: their indexes are left alone. */
export function saveContents(session: Session, state: number, rows: readonly LiveRow[]): Promise<void> {
  return upsert(session, state, rows, CONTENTS);
}

async function upsert(session: Session, state: number, rows: readonly LiveRow[], changed: Sql): Promise<void> {
  if (rows.length === 0) return;
  const { from, text, number } = listed(
    session.dialect,
    rows.map(({ raw, person, due, oldest, kept, links }) => [raw, person, due, oldest, kept, links]),
  );
  await session.run(sql`INSERT INTO rollcall.live_id (state, raw, person, due, oldest, kept, links)
    SELECT CAST(${state} AS bigint), ${text(0)}, ${text(1)}, ${number(2)}, ${number(3)}, ${text(4)}, ${text(5)} FROM ${from} WHERE true
    ON CONFLICT (state, raw) DO UPDATE SET ${changed}`);
}

export async function dropRows(session: Session, state: number, raws: readonly string[]): Promise<void> {
  if (raws.length === 0) return;
  const theirs = session.dialect.oneOf(raw('raw'), 'text', raws);
  await session.run(sql`DELETE FROM rollcall.live_id WHERE state = ${state} AND ${theirs}`);
}

type IdTuple = readonly [
  ...[raw: string, person: string | null, due: number | null, oldest: number | null],
  ...[kept: string, links: string],
];

/** @param index - the one to go by: without statistics SQLite would rather read all rows of a state than look by person */
async function rowsWhere({ rows }: Session, condition: Sql, index = raw('')): Promise<LiveRow[]> {
  const found = await rows<IdTuple>(
    sql`SELECT raw, person, due, oldest, kept, links FROM rollcall.live_id ${index} WHERE ${condition}`,
  );
  return found.map(([raw, person, due, oldest, kept, links]) => ({ raw, person, due, oldest, kept, links }));
}

export async function rowsOfIds(session: Session, state: number, raws: readonly string[]): Promise<LiveRow[]> {
  if (raws.length === 0) return [];
  return rowsWhere(session, sql`state = ${state} AND ${session.dialect.oneOf(raw('raw'), 'text', raws)}`);
}

export async function rowsOfPersons(session: Session, state: number, persons: readonly string[]): Promise<LiveRow[]> {
  if (persons.length === 0) return [];
  const { dialect } = session;
  const theirs = dialect.oneOf(raw('person'), 'text', persons);
  return rowsWhere(session, sql`state = ${state} AND ${theirs}`, dialect.using('live_id_person'));
}

/** Two statements: a database that expects few rows would read all of them for one. */
export async function rowsAround(
  session: Session,
  ...[state, raws, isLean]: Parameters<LiveState['rowsAround']>
): Promise<LiveRow[]> {
  const own = await rowsOfIds(session, state, raws);
  const given = new Set(raws);
  const persons = new Set(own.flatMap(({ person }) => person ?? []));
  for (const id of raws) if (id.startsWith(USER)) persons.add(id.slice(USER.length));
  const { dialect } = session;
  const theirs = dialect.oneOf(raw('person'), 'text', [...persons]);
  // All user ids: who a person is goes by their links.
  const needed = isLean ? sql`(kept <> '{}' OR raw >= ${USER})` : raw('true');
  const condition = sql`state = ${state} AND ${theirs} AND ${needed}`;
  const rest = await rowsWhere(session, condition, dialect.using('live_id_person'));
  return [...own, ...rest.filter((row) => !given.has(row.raw))];
}

/** A list of links has a list for each user. */
export function sharedRows(session: Session, state: number, after: string, limit: number): Promise<LiveRow[]> {
  return rowsWhere(
    session,
    sql`state = ${state} AND raw > ${after} AND links LIKE '%]],[%' ORDER BY raw LIMIT ${limit}`,
  );
}

export async function idsOlderThan({ rows }: Session, state: number, first: number, limit: number): Promise<string[]> {
  const found = await rows<[string]>(sql`SELECT raw FROM rollcall.live_id
    WHERE state = ${state} AND oldest < ${first} ORDER BY oldest LIMIT ${limit}`);
  return found.map(([raw]) => raw);
}

export async function personsAfter({ rows }: Session, state: number, after: string, limit: number): Promise<string[]> {
  const found = await rows<[string]>(sql`SELECT DISTINCT person FROM rollcall.live_id
    WHERE state = ${state} AND person > ${after} AND kept <> '{}' ORDER BY person LIMIT ${limit}`);
  return found.map(([person]) => person);
}

export async function namedAudiences({ rows }: Session, state: number): Promise<LiveNamed[]> {
  const found = await rows<[string, number]>(sql`SELECT key, version FROM rollcall.live_named WHERE state = ${state}`);
  return found.map(([key, version]) => ({ key, version }));
}

export async function saveNamed({ run }: Session, state: number, { key, version }: LiveNamed): Promise<void> {
  await run(sql`INSERT INTO rollcall.live_named (state, key, version) VALUES (${state}, ${key}, ${version})
    ON CONFLICT (state, key) DO UPDATE SET version = excluded.version`);
}

export async function flaggedUsers({ rows }: Session, state: number, after: string, limit: number) {
  const found = await rows<[string, number]>(sql`SELECT raw, CASE WHEN kept LIKE '%"in":{%' THEN 1 ELSE 0 END
    FROM (SELECT raw, kept FROM rollcall.live_id WHERE state = ${state} AND raw > ${after} ORDER BY raw LIMIT ${limit}) AS ids
    ORDER BY raw`);
  return { raws: found.flatMap(([raw, isIn]) => (isIn === 1 ? raw : [])), last: found.at(-1)?.[0] ?? null };
}

export async function strayMembers(
  { rows, dialect }: Session,
  state: number,
  key: string,
  after: string,
  limit: number,
) {
  const found = await rows<[string, number]>(sql`SELECT user_id, CASE WHEN EXISTS (
      SELECT 1 FROM rollcall.live_id AS i ${dialect.using('live_id_person')} WHERE i.state = ${state} AND i.person = m.user_id AND i.kept <> '{}') THEN 0 ELSE 1 END
    FROM (SELECT user_id FROM rollcall.live_member WHERE key = ${key} AND user_id > ${after} AND current IS NOT NULL
      ORDER BY user_id LIMIT ${limit}) AS m ORDER BY user_id`);
  const users = found.flatMap(([user, isStray]) => (isStray === 1 ? user : []));
  return { users, last: found.at(-1)?.[0] ?? null };
}

/** The next time comes by itself: to read on from those that have come would be to read as many who have not, at each step. */
export async function personsDue({ rows }: Session, state: number, now: number, limit: number) {
  const found = await rows<[string | null, number | null]>(sql`SELECT person, due FROM (
      SELECT person, due FROM rollcall.live_id WHERE state = ${state} AND due <= ${now} ORDER BY due LIMIT ${limit}) AS come
    UNION ALL SELECT NULL, min(due) FROM rollcall.live_id WHERE state = ${state} AND due > ${now}`);
  const come = found.filter(([person]) => person !== null);
  const [, next = null] = found.find(([person]) => person === null) ?? [];
  return { persons: come.flatMap(([person]) => person ?? []), since: come[0]?.[1] ?? null, next };
}

export function rewriteRows(
  session: Session,
  ...[state, known, rows, gone]: Parameters<LiveState['rewriteRows']>
): Promise<void> {
  return session.transaction(async (session) => {
    // Steps change this row too, so none is under way from here on.
    await session.run(sql`UPDATE rollcall.live_source SET revision = revision + 1 WHERE state = ${state}`);
    const raws = [...new Set([...known, ...rows].map((row) => row.raw))];
    const before = new Map(known.map((row) => [row.raw, row]));
    const now = new Map((await rowsOfIds(session, state, raws)).map((row) => [row.raw, row]));
    if (raws.some((raw) => !isDeepStrictEqual(now.get(raw), before.get(raw)))) throw liveMoved();
    await saveRows(session, state, rows);
    await dropRows(session, state, gone);
    const kept = sql`FROM rollcall.live_id WHERE state = ${state}`;
    await session.run(sql`UPDATE rollcall.live_source SET ids = (SELECT count(*) ${kept}),
      due = (SELECT count(*) ${kept} AND due IS NOT NULL) WHERE state = ${state}`);
  });
}
