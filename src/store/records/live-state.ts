import { RollcallError } from '../../errors.ts';
import type { Fence } from '../fence.ts';
import type { LiveCommit, LiveFill, LiveRow, LiveSource } from '../live.ts';
import { raw, type Sql, sql } from '../sql.ts';
import { checkEpoch } from './deletions.ts';
import { checkFence } from './fence.ts';
import { listed } from './listed.ts';
import { givenChanges, saveMembers } from './live-changes.ts';
import type { Session } from './session.ts';

/** Values of `building`. What begins anew was built from something that has changed since. */
const [BUILT, BEGUN, BEGINS_ANEW] = [0, 1, 2];

type SourceRow = readonly [
  ...[asked: string, position: string, at: number, revision: number, building: number],
  ...[done: number, total: number, ids: number, due: number],
];

export async function liveSource({ rows }: Session, source: string): Promise<LiveSource | null> {
  const [row] = await rows<SourceRow>(
    sql`SELECT asked, position, at, revision, building, done, total, ids, due FROM rollcall.live_source WHERE source = ${source}`,
  );
  if (!row) return null;
  const [asked, position, at, revision, building, done, total, ids, due] = row;
  return { asked, position, at, revision, isBuilding: building !== BUILT, done, total, ids, due };
}

export async function liveSources({ rows }: Session): Promise<string[]> {
  return (await rows<[string]>(sql`SELECT source FROM rollcall.live_source`)).map(([source]) => source);
}

export function beginLive(
  session: Session,
  source: string,
  asked: string,
  position: string,
  fence: Fence,
): Promise<void> {
  return session.transaction(async (session) => {
    await checkFence(session, fence);
    await session.run(sql`INSERT INTO rollcall.live_source (source, asked, position, at, revision, building, done, total, ids, due)
      VALUES (${source}, ${asked}, ${position}, 0, 1, ${BEGUN}, 0, 0, 0, 0)
      ON CONFLICT (source) DO UPDATE SET asked = excluded.asked, position = excluded.position, building = excluded.building,
        done = 0, total = 0, revision = live_source.revision + 1`);
  });
}

export async function rebuildLive({ run }: Session): Promise<void> {
  await run(sql`UPDATE rollcall.live_source SET building = ${BEGINS_ANEW}, revision = revision + 1`);
}

export async function clearLive({ run }: Session, source: string, limit: number): Promise<number> {
  const gone = await run(sql`DELETE FROM rollcall.live_id WHERE source = ${source} AND raw IN (
    SELECT raw FROM rollcall.live_id WHERE source = ${source} LIMIT ${limit})`);
  if (gone === 0) await run(sql`UPDATE rollcall.live_source SET ids = 0, due = 0 WHERE source = ${source}`);
  return gone;
}

export function fillLive(session: Session, fill: LiveFill): Promise<void> {
  return session.transaction(async (session) => {
    const { fence, epoch, source, rows, changes, done, total } = fill;
    await checkFence(session, fence);
    await checkEpoch(session, epoch);
    await saveRows(session, source, rows);
    if (changes.length > 0) {
      const untold = changes.map((change) => ({ ...change, version: null }));
      await saveMembers(session, givenChanges(session, untold));
    }
    const due = rows.filter((row) => row.due !== null).length;
    await session.run(sql`UPDATE rollcall.live_source SET done = ${done}, total = ${total}, ids = ids + ${rows.length},
      due = due + ${due} WHERE source = ${source}`);
  });
}

export async function saveRows(session: Session, source: string, rows: readonly LiveRow[]): Promise<void> {
  if (rows.length === 0) return;
  const { from, text, number } = listed(
    session.dialect,
    rows.map(({ raw, person, due, oldest, kept, links }) => [raw, person, due, oldest, kept, links]),
  );
  await session.run(sql`INSERT INTO rollcall.live_id (source, raw, person, due, oldest, kept, links)
    SELECT ${source}, ${text(0)}, ${text(1)}, ${number(2)}, ${number(3)}, ${text(4)}, ${text(5)} FROM ${from} WHERE true
    ON CONFLICT (source, raw) DO UPDATE SET person = excluded.person, due = excluded.due, oldest = excluded.oldest,
      kept = excluded.kept, links = excluded.links`);
}

export async function dropRows(session: Session, source: string, raws: readonly string[]): Promise<void> {
  if (raws.length === 0) return;
  const theirs = session.dialect.oneOf(raw('raw'), 'text', raws);
  await session.run(sql`DELETE FROM rollcall.live_id WHERE source = ${source} AND ${theirs}`);
}

export function endLive(session: Session, source: string, at: number, fence: Fence): Promise<void> {
  return session.transaction(async (session) => {
    await checkFence(session, fence);
    const ended =
      await session.run(sql`UPDATE rollcall.live_source SET at = ${at}, building = ${BUILT}, revision = revision + 1
      WHERE source = ${source} AND building = ${BEGUN}`);
    if (ended === 0) throw liveMoved();
  });
}

type Row = readonly [
  ...[raw: string, person: string | null, due: number | null, oldest: number | null],
  ...[kept: string, links: string],
];

async function rowsWhere({ rows }: Session, condition: Sql): Promise<LiveRow[]> {
  const found = await rows<Row>(
    sql`SELECT raw, person, due, oldest, kept, links FROM rollcall.live_id WHERE ${condition}`,
  );
  return found.map(([raw, person, due, oldest, kept, links]) => ({ raw, person, due, oldest, kept, links }));
}

export async function liveRows(session: Session, source: string, raws: readonly string[]): Promise<LiveRow[]> {
  if (raws.length === 0) return [];
  return rowsWhere(session, sql`source = ${source} AND ${session.dialect.oneOf(raw('raw'), 'text', raws)}`);
}

export async function liveRowsOf(session: Session, source: string, persons: readonly string[]): Promise<LiveRow[]> {
  if (persons.length === 0) return [];
  return rowsWhere(session, sql`source = ${source} AND ${session.dialect.oneOf(raw('person'), 'text', persons)}`);
}

/** A list of links has a list for each user. */
export function liveShared(session: Session, source: string, after: string, limit: number): Promise<LiveRow[]> {
  return rowsWhere(
    session,
    sql`source = ${source} AND raw > ${after} AND links LIKE '%]],[%' ORDER BY raw LIMIT ${limit}`,
  );
}

export async function liveOld({ rows }: Session, source: string, first: number, limit: number): Promise<string[]> {
  const found = await rows<[string]>(sql`SELECT raw FROM rollcall.live_id
    WHERE source = ${source} AND oldest < ${first} ORDER BY oldest LIMIT ${limit}`);
  return found.map(([raw]) => raw);
}

export async function livePersons({ rows }: Session, source: string, after: string, limit: number): Promise<string[]> {
  const found = await rows<[string]>(sql`SELECT DISTINCT person FROM rollcall.live_id
    WHERE source = ${source} AND person > ${after} AND kept <> '{}' ORDER BY person LIMIT ${limit}`);
  return found.map(([person]) => person);
}

export async function liveStrays({ rows }: Session, source: string, key: string, after: string, limit: number) {
  const found = await rows<[string]>(sql`SELECT user_id FROM rollcall.live_member AS m
    WHERE m.key = ${key} AND m.user_id > ${after} AND m.current IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM rollcall.live_id AS i WHERE i.source = ${source} AND i.person = m.user_id AND i.kept <> '{}')
    ORDER BY m.user_id LIMIT ${limit}`);
  return found.map(([user]) => user);
}

export async function liveDue({ rows }: Session, source: string, now: number, limit: number) {
  const found = await rows<[string, number]>(sql`SELECT person, due FROM rollcall.live_id
    WHERE source = ${source} AND due IS NOT NULL ORDER BY due LIMIT ${limit + 1}`);
  const come = found.filter(([, due]) => due <= now).slice(0, limit);
  const persons = come.map(([person]) => person);
  return { persons, since: come[0]?.[1] ?? null, next: found[come.length]?.[1] ?? null };
}

/** @throws RollcallError `live_moved` when somebody else changed what the step was computed from */
export async function moveSource(
  { run }: Session,
  given: Pick<LiveCommit, 'source' | 'revision' | 'position' | 'at' | 'more'>,
): Promise<void> {
  const { source, revision, position, at, more } = given;
  const moved =
    await run(sql`UPDATE rollcall.live_source SET position = ${position}, at = ${at}, ids = ids + ${more.ids},
      due = due + ${more.due}
    WHERE source = ${source} AND revision = ${revision} AND building = ${BUILT}`);
  if (moved === 0) throw liveMoved();
}

export function liveMoved(): RollcallError {
  return new RollcallError('live_moved', 'What live membership is computed from has changed; it is computed again.');
}

export function rewriteLive(
  session: Session,
  source: string,
  rows: readonly LiveRow[],
  gone: readonly string[],
): Promise<void> {
  return session.transaction(async (session) => {
    await saveRows(session, source, rows);
    await dropRows(session, source, gone);
    const kept = sql`FROM rollcall.live_id WHERE source = ${source}`;
    await session.run(sql`UPDATE rollcall.live_source SET revision = revision + 1, ids = (SELECT count(*) ${kept}),
      due = (SELECT count(*) ${kept} AND due IS NOT NULL) WHERE source = ${source}`);
  });
}
