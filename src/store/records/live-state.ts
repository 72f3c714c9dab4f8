import { RollcallError } from '../../kernel/errors.ts';
import type { Fence } from '../fleet.ts';
import type { LiveCommit, LiveFill, LiveNamed, LiveRecords, LiveRow, LiveSource } from '../live.ts';
import { raw, type Sql, sql } from '../sql.ts';
import { checkEpoch } from './deletions.ts';
import { checkFence } from './fence.ts';
import { listed } from './listed.ts';
import { givenChanges, saveMembers } from './live-changes.ts';
import type { Session } from './session.ts';

/** The beginning of the raw id of a user; those of anonymous ids come before. */
const USER = 'u:';

/**
 * Values of `building`. What begins anew was built from something that has changed since; what is over is being removed. What is
 * stale goes on serving until another has taken its place; that one is unseen until everybody was looked at by it.
 */
const [BUILT, BEGUN, BEGINS_ANEW, STALE, UNSEEN] = [0, 1, 2, 4, 5];
export const OVER = 3;
const SERVES_ON = sql`building IN (${BUILT}, ${STALE}, ${UNSEEN})`;

type SourceRow = readonly [
  ...[state: number, source: string, asked: string, position: string, at: number, revision: number, building: number],
  ...[done: number, total: number, ids: number, due: number],
];

async function sourcesWhere({ rows }: Session, condition: Sql): Promise<LiveSource[]> {
  const found =
    await rows<SourceRow>(sql`SELECT state, source, asked, position, at, revision, building, done, total, ids, due
    FROM rollcall.live_source WHERE ${condition} ORDER BY serving DESC, state DESC`);
  return found.map(([state, source, asked, position, at, revision, building, done, total, ids, due]) => {
    const phase = {
      isBuilding: ![BUILT, STALE, UNSEEN].includes(building),
      isStale: building === STALE,
      isUnseen: building === UNSEEN,
    };
    return { state, source, asked, position, at, revision, ...phase, done, total, ids, due };
  });
}

export async function liveSource(session: Session, source: string): Promise<LiveSource | null> {
  return (await sourcesWhere(session, sql`source = ${source} AND building <> ${OVER}`))[0] ?? null;
}

export async function liveNext(session: Session, source: string): Promise<LiveSource | null> {
  const next = sql`source = ${source} AND building <> ${OVER} AND serving = 0`;
  return (await sourcesWhere(session, next))[0] ?? null;
}

export function liveSources(session: Session): Promise<LiveSource[]> {
  return sourcesWhere(session, raw('true'));
}

export function beginLive(
  session: Session,
  ...[source, asked, position, beside, fence]: Parameters<LiveRecords['beginLive']>
): Promise<number> {
  return session.transaction(async (session) => {
    await checkFence(session, fence);
    const isOver = beside ? sql`serving = 0` : raw('true');
    await session.run(sql`UPDATE rollcall.live_source SET serving = 0, building = ${OVER}
      WHERE source = ${source} AND ${isOver}`);
    await session.run(sql`INSERT INTO rollcall.live_source
        (source, serving, asked, position, at, revision, building, done, total, ids, due)
      VALUES (${source}, 0, ${asked}, ${position}, 0, 1, ${BEGUN}, 0, 0, 0, 0)`);
    return (await liveNext(session, source))?.state ?? 0;
  });
}

export function askLive(
  session: Session,
  ...[state, asked, named, fence]: Parameters<LiveRecords['askLive']>
): Promise<void> {
  return session.transaction(async (session) => {
    await checkFence(session, fence);
    await session.run(sql`UPDATE rollcall.live_source SET asked = ${asked} WHERE state = ${state}`);
    const known = session.dialect.oneOf(raw('key'), 'text', named);
    await session.run(sql`DELETE FROM rollcall.live_named WHERE state = ${state} AND NOT (${known})`);
  });
}

export async function rebuildLive({ run }: Session): Promise<void> {
  await run(
    sql`UPDATE rollcall.live_source SET building = ${BEGINS_ANEW}, revision = revision + 1 WHERE building <> ${OVER}`,
  );
}

export async function renewLive({ run }: Session, source: string | null): Promise<void> {
  const whose = source === null ? raw('true') : sql`source = ${source}`;
  await run(sql`UPDATE rollcall.live_source SET revision = revision + 1,
      building = CASE WHEN serving = 1 AND ${SERVES_ON} THEN ${raw(String(STALE))} ELSE ${raw(String(BEGINS_ANEW))} END
    WHERE building <> ${OVER} AND ${whose}`);
}

export function seenLive(session: Session, ...[state, fence]: Parameters<LiveRecords['seenLive']>): Promise<void> {
  return session.transaction(async (session) => {
    await checkFence(session, fence);
    await session.run(
      sql`UPDATE rollcall.live_source SET building = ${BUILT} WHERE state = ${state} AND building = ${UNSEEN}`,
    );
  });
}

export function dropLiveSource(
  session: Session,
  ...[source, fence]: Parameters<LiveRecords['dropLiveSource']>
): Promise<void> {
  return session.transaction(async (session) => {
    await checkFence(session, fence);
    await session.run(sql`UPDATE rollcall.live_source SET serving = 0, building = ${OVER} WHERE source = ${source}`);
  });
}

export function clearLive(session: Session, source: string, limit: number): Promise<boolean> {
  return session.transaction(async ({ rows, run }) => {
    const over = sql`SELECT state FROM rollcall.live_source WHERE source = ${source} AND building = ${OVER} LIMIT 1`;
    const [[state] = [null]] = await rows<[number | null]>(over);
    if (state === null) return false;
    const gone = await run(sql`DELETE FROM rollcall.live_id WHERE state = ${state} AND raw IN (
      SELECT raw FROM rollcall.live_id WHERE state = ${state} LIMIT ${limit})`);
    if (gone === 0) {
      await run(sql`DELETE FROM rollcall.live_named WHERE state = ${state}`);
      await run(sql`DELETE FROM rollcall.live_source WHERE state = ${state}`);
    }
    return true;
  });
}

export function fillLive(session: Session, fill: LiveFill): Promise<void> {
  return session.transaction(async (session) => {
    const { fence, epoch, state, rows, changes, done, total } = fill;
    await checkFence(session, fence);
    await checkEpoch(session, epoch);
    await saveRows(session, state, rows);
    if (changes.length > 0) {
      const untold = changes.map((change) => ({ ...change, version: null }));
      await saveMembers(session, givenChanges(session, untold));
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

export function endLive(session: Session, state: number, at: number, fence: Fence): Promise<void> {
  return session.transaction(async (session) => {
    await checkFence(session, fence);
    const ended =
      await session.run(sql`UPDATE rollcall.live_source SET at = ${at}, building = ${BUILT}, revision = revision + 1,
        serving = CASE WHEN EXISTS (SELECT 1 FROM rollcall.live_source AS other
          WHERE other.source = live_source.source AND other.serving = 1) THEN 0 ELSE 1 END
      WHERE state = ${state} AND building = ${BEGUN}`);
    if (ended === 0) throw liveMoved();
    // A database that still takes the table for an empty one would read all of it in each step.
    for (const table of ['live_id', 'live_member']) {
      const count = session.dialect.counted(table);
      if (count) await session.run(count);
    }
  });
}

type Row = readonly [
  ...[raw: string, person: string | null, due: number | null, oldest: number | null],
  ...[kept: string, links: string],
];

/** @param index - the one to go by: without statistics SQLite would rather read all rows of a state than look by person */
async function rowsWhere({ rows }: Session, condition: Sql, index = raw('')): Promise<LiveRow[]> {
  const found = await rows<Row>(
    sql`SELECT raw, person, due, oldest, kept, links FROM rollcall.live_id ${index} WHERE ${condition}`,
  );
  return found.map(([raw, person, due, oldest, kept, links]) => ({ raw, person, due, oldest, kept, links }));
}

export async function liveRows(session: Session, state: number, raws: readonly string[]): Promise<LiveRow[]> {
  if (raws.length === 0) return [];
  return rowsWhere(session, sql`state = ${state} AND ${session.dialect.oneOf(raw('raw'), 'text', raws)}`);
}

export async function liveRowsOf(session: Session, state: number, persons: readonly string[]): Promise<LiveRow[]> {
  if (persons.length === 0) return [];
  const { dialect } = session;
  const theirs = dialect.oneOf(raw('person'), 'text', persons);
  return rowsWhere(session, sql`state = ${state} AND ${theirs}`, dialect.using('live_id_person'));
}

/** Two statements: a database that expects few rows would read all of them for one. */
export async function liveAround(
  session: Session,
  ...[state, raws, isLean]: Parameters<LiveRecords['liveAround']>
): Promise<LiveRow[]> {
  const own = await liveRows(session, state, raws);
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
export function liveShared(session: Session, state: number, after: string, limit: number): Promise<LiveRow[]> {
  return rowsWhere(
    session,
    sql`state = ${state} AND raw > ${after} AND links LIKE '%]],[%' ORDER BY raw LIMIT ${limit}`,
  );
}

export async function liveOld({ rows }: Session, state: number, first: number, limit: number): Promise<string[]> {
  const found = await rows<[string]>(sql`SELECT raw FROM rollcall.live_id
    WHERE state = ${state} AND oldest < ${first} ORDER BY oldest LIMIT ${limit}`);
  return found.map(([raw]) => raw);
}

export async function livePersons({ rows }: Session, state: number, after: string, limit: number): Promise<string[]> {
  const found = await rows<[string]>(sql`SELECT DISTINCT person FROM rollcall.live_id
    WHERE state = ${state} AND person > ${after} AND kept <> '{}' ORDER BY person LIMIT ${limit}`);
  return found.map(([person]) => person);
}

export async function liveNamed({ rows }: Session, state: number): Promise<LiveNamed[]> {
  const found = await rows<[string, number]>(sql`SELECT key, version FROM rollcall.live_named WHERE state = ${state}`);
  return found.map(([key, version]) => ({ key, version }));
}

export async function saveNamed({ run }: Session, state: number, { key, version }: LiveNamed): Promise<void> {
  await run(sql`INSERT INTO rollcall.live_named (state, key, version) VALUES (${state}, ${key}, ${version})
    ON CONFLICT (state, key) DO UPDATE SET version = excluded.version`);
}

export async function liveFlagged({ rows }: Session, state: number, after: string, limit: number) {
  const found = await rows<[string, number]>(sql`SELECT raw, CASE WHEN kept LIKE '%"in":{%' THEN 1 ELSE 0 END
    FROM (SELECT raw, kept FROM rollcall.live_id WHERE state = ${state} AND raw > ${after} ORDER BY raw LIMIT ${limit}) AS ids
    ORDER BY raw`);
  return { raws: found.flatMap(([raw, isIn]) => (isIn === 1 ? raw : [])), last: found.at(-1)?.[0] ?? null };
}

export async function liveStrays({ rows, dialect }: Session, state: number, key: string, after: string, limit: number) {
  const found = await rows<[string, number]>(sql`SELECT user_id, CASE WHEN EXISTS (
      SELECT 1 FROM rollcall.live_id AS i ${dialect.using('live_id_person')} WHERE i.state = ${state} AND i.person = m.user_id AND i.kept <> '{}') THEN 0 ELSE 1 END
    FROM (SELECT user_id FROM rollcall.live_member WHERE key = ${key} AND user_id > ${after} AND current IS NOT NULL
      ORDER BY user_id LIMIT ${limit}) AS m ORDER BY user_id`);
  const users = found.flatMap(([user, isStray]) => (isStray === 1 ? user : []));
  return { users, last: found.at(-1)?.[0] ?? null };
}

/** The next time comes by itself: to read on from those that have come would be to read as many who have not, at each step. */
export async function liveDue({ rows }: Session, state: number, now: number, limit: number) {
  const found = await rows<[string | null, number | null]>(sql`SELECT person, due FROM (
      SELECT person, due FROM rollcall.live_id WHERE state = ${state} AND due <= ${now} ORDER BY due LIMIT ${limit}) AS come
    UNION ALL SELECT NULL, min(due) FROM rollcall.live_id WHERE state = ${state} AND due > ${now}`);
  const come = found.filter(([person]) => person !== null);
  const [, next = null] = found.find(([person]) => person === null) ?? [];
  return { persons: come.flatMap(([person]) => person ?? []), since: come[0]?.[1] ?? null, next };
}

/** @throws RollcallError `live_moved` when somebody else changed what the step was computed from */
export async function moveSource(
  { run }: Session,
  given: Pick<LiveCommit, 'state' | 'revision' | 'position' | 'at' | 'more'>,
): Promise<void> {
  const { state, revision, position, at, more } = given;
  const moved =
    await run(sql`UPDATE rollcall.live_source SET position = ${position}, at = ${at}, ids = ids + ${more.ids},
      due = due + ${more.due}
    WHERE state = ${state} AND revision = ${revision} AND ${SERVES_ON}`);
  if (moved === 0) throw liveMoved();
}

/** Has a state that has caught up serve its source. Where the former one was stale, not all that it says can be relied on. */
export async function serve({ run }: Session, state: number): Promise<void> {
  await run(sql`UPDATE rollcall.live_source SET building = ${UNSEEN} WHERE state = ${state} AND EXISTS (
    SELECT 1 FROM rollcall.live_source AS former WHERE former.source = live_source.source AND former.serving = 1
      AND former.building IN (${STALE}, ${UNSEEN}))`);
  await run(sql`UPDATE rollcall.live_source SET serving = CASE WHEN state = ${state} THEN 1 ELSE 0 END,
      building = CASE WHEN state = ${state} THEN building ELSE ${OVER} END
    WHERE source = (SELECT source FROM rollcall.live_source WHERE state = ${state})`);
}

export function liveMoved(): RollcallError {
  return new RollcallError('live_moved', 'What live membership is computed from has changed; it is computed again.');
}

export function rewriteLive(
  session: Session,
  state: number,
  rows: readonly LiveRow[],
  gone: readonly string[],
): Promise<void> {
  return session.transaction(async (session) => {
    await saveRows(session, state, rows);
    await dropRows(session, state, gone);
    const kept = sql`FROM rollcall.live_id WHERE state = ${state}`;
    await session.run(sql`UPDATE rollcall.live_source SET revision = revision + 1, ids = (SELECT count(*) ${kept}),
      due = (SELECT count(*) ${kept} AND due IS NOT NULL) WHERE state = ${state}`);
  });
}
