import { RollcallError } from '../../kernel/errors.ts';
import type { Fence } from '../fleet.ts';
import type { LiveCommit, LiveSource, LiveState } from '../live.ts';
import { checkFence } from '../records/fence.ts';
import type { Session } from '../records/session.ts';
import { raw, type Sql, sql } from '../sql.ts';

/*
 * The states of a live source (docs/live.md). A state is what is kept of the log for one source: a row of `live_source`, whose
 * column `building` has one of these codes. At most one state of a source serves it (`serving = 1`): steps are computed from
 * that one. Another may be built at the same time, to take its place.
 *
 *   beginState ──▶ begun ──endBuild──▶ built ──renewStates──▶ stale
 *                                      │   ▲                    ▲
 *                   serve, in the place│   │markSeen            │renewStates
 *                   of stale or unseen │   │                    │
 *                                      ▼   │                    │
 *                                      unseen ──────────────────┘
 *
 *   begun, or built and not serving yet ──renewStates──▶ void        any but over ──rebuildAll──▶ void
 *   any ──beginState, serve or dropSource puts another or none in its place──▶ over ──clearOver──▶ (removed)
 *
 *   begun    The log is being read for it, from its beginning.
 *   built    It has read the log, and steps keep it up to date.
 *   stale    The log has changed since it was built, as by a deletion. It serves until another takes its place.
 *   unseen   It took the place of a stale one, and not everybody has been evaluated by it.
 *   void     What it was built from has changed so much that it may not be used: it has to be built again.
 *   over     Another has taken its place, or nothing is live there any more. Its rows are being removed.
 */
const [BUILT, BEGUN, VOID, STALE, UNSEEN] = [0, 1, 2, 4, 5];
export const OVER = 3;
/** States that steps are computed from. */
const USABLE = [BUILT, STALE, UNSEEN];
const IS_USABLE = sql`building IN (${BUILT}, ${STALE}, ${UNSEEN})`;
const IS_OVER = sql`building = ${OVER}`;
const IS_KEPT = sql`building <> ${OVER}`;

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
      isBuilding: !USABLE.includes(building),
      isStale: building === STALE,
      isUnseen: building === UNSEEN,
    };
    return { state, source, asked, position, at, revision, ...phase, done, total, ids, due };
  });
}

export async function currentState(session: Session, source: string): Promise<LiveSource | null> {
  return (await sourcesWhere(session, sql`source = ${source} AND ${IS_KEPT}`))[0] ?? null;
}

export async function nextState(session: Session, source: string): Promise<LiveSource | null> {
  const next = sql`source = ${source} AND ${IS_KEPT} AND serving = 0`;
  return (await sourcesWhere(session, next))[0] ?? null;
}

export function allStates(session: Session): Promise<LiveSource[]> {
  return sourcesWhere(session, raw('true'));
}

export function beginState(
  session: Session,
  ...[source, asked, position, beside, fence]: Parameters<LiveState['beginState']>
): Promise<number> {
  return session.transaction(async (session) => {
    await checkFence(session, fence);
    const isOver = beside ? sql`serving = 0` : raw('true');
    await session.run(sql`UPDATE rollcall.live_source SET serving = 0, building = ${OVER}
      WHERE source = ${source} AND ${isOver}`);
    await session.run(sql`INSERT INTO rollcall.live_source
        (source, serving, asked, position, at, revision, building, done, total, ids, due)
      VALUES (${source}, 0, ${asked}, ${position}, 0, 1, ${BEGUN}, 0, 0, 0, 0)`);
    return (await nextState(session, source))?.state ?? 0;
  });
}

export function setAsked(
  session: Session,
  ...[state, asked, named, fence]: Parameters<LiveState['setAsked']>
): Promise<void> {
  return session.transaction(async (session) => {
    await checkFence(session, fence);
    await session.run(sql`UPDATE rollcall.live_source SET asked = ${asked} WHERE state = ${state}`);
    const known = session.dialect.oneOf(raw('key'), 'text', named);
    await session.run(sql`DELETE FROM rollcall.live_named WHERE state = ${state} AND NOT (${known})`);
  });
}

export async function rebuildAll({ run }: Session): Promise<void> {
  await run(sql`UPDATE rollcall.live_source SET building = ${VOID}, revision = revision + 1 WHERE ${IS_KEPT}`);
}

export async function renewStates({ run }: Session, source: string | null): Promise<void> {
  const whose = source === null ? raw('true') : sql`source = ${source}`;
  await run(sql`UPDATE rollcall.live_source SET revision = revision + 1,
      building = CASE WHEN serving = 1 AND ${IS_USABLE} THEN ${raw(String(STALE))} ELSE ${raw(String(VOID))} END
    WHERE ${IS_KEPT} AND ${whose}`);
}

export function markSeen(session: Session, ...[state, fence]: Parameters<LiveState['markSeen']>): Promise<void> {
  return session.transaction(async (session) => {
    await checkFence(session, fence);
    await session.run(
      sql`UPDATE rollcall.live_source SET building = ${BUILT} WHERE state = ${state} AND building = ${UNSEEN}`,
    );
  });
}

export function dropSource(session: Session, ...[source, fence]: Parameters<LiveState['dropSource']>): Promise<void> {
  return session.transaction(async (session) => {
    await checkFence(session, fence);
    await session.run(sql`UPDATE rollcall.live_source SET serving = 0, building = ${OVER} WHERE source = ${source}`);
  });
}

export function clearOver(session: Session, source: string, limit: number): Promise<boolean> {
  return session.transaction(async ({ rows, run }) => {
    const over = sql`SELECT state FROM rollcall.live_source WHERE source = ${source} AND ${IS_OVER} LIMIT 1`;
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

export function endBuild(session: Session, state: number, at: number, fence: Fence): Promise<void> {
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

/** @throws RollcallError `live_moved` when somebody else changed what the step was computed from */
export async function moveSource(
  { run }: Session,
  given: Pick<LiveCommit, 'state' | 'revision' | 'position' | 'at' | 'more'>,
): Promise<void> {
  const { state, revision, position, at, more } = given;
  const moved =
    await run(sql`UPDATE rollcall.live_source SET position = ${position}, at = ${at}, ids = ids + ${more.ids},
      due = due + ${more.due}
    WHERE state = ${state} AND revision = ${revision} AND ${IS_USABLE}`);
  if (moved === 0) throw liveMoved();
}

/** Lets a state that has caught up serve its source. If the former one was stale, not all that it says can be relied on. */
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
