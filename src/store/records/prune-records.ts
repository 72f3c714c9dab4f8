import { raw, type Sql, sql } from '../sql.ts';
import { IS_OPEN } from './runs.ts';
import type { Dialect, Session } from './session.ts';

/** Old runs, except those that are unfinished, undelivered or the newest of their key. */
export const prunableRuns = (dialect: Dialect, before: number, limit: number): Sql => sql`
  SELECT r.id FROM rollcall.run AS r ${dialect.using('run_started')}
  WHERE r.started_at < ${before} AND NOT ${IS_OPEN}
    AND EXISTS (SELECT 1 FROM rollcall.run AS newer ${dialect.using('run_key')}
      WHERE newer.key = r.key AND newer.seq > r.seq)
    AND (SELECT coalesce(sum(p.deliveries - p.delivered - p.dead - p.superseded), 0)
      FROM rollcall.run_progress AS p WHERE p.run = r.id) <= 0
  ORDER BY r.started_at LIMIT ${limit}`;

export const prunableRegulations = (dialect: Dialect, before: number, limit: number): Sql => sql`
  SELECT id FROM rollcall.regulation ${dialect.using('regulation_over')}
  WHERE status NOT IN ('INITIALIZED', 'RUNNING') AND created_at < ${before} ORDER BY created_at LIMIT ${limit}`;

/** Time of the first deletion after an unfinished run was computed: its hashes are still needed. */
const neededSince = (dialect: Dialect): Sql => sql`
  SELECT min(created_at) FROM rollcall.regulation WHERE id IN (
    SELECT regulation FROM rollcall.deletion WHERE epoch > (
      SELECT min(${dialect.numberIn(raw('record'), 'epoch')})
      FROM rollcall.run ${dialect.using('run_open')} WHERE ${IS_OPEN}))`;

export function pruneRecords(
  session: Session,
  runsBefore: number,
  regulationsBefore: number,
  limit: number,
): Promise<number> {
  return session.transaction(async (session) => {
    const { rows, run, dialect } = session;
    const runs = (await rows<[string]>(prunableRuns(dialect, runsBefore, limit))).map(([id]) => id);
    if (runs.length > 0) {
      await run(sql`DELETE FROM rollcall.run_progress WHERE ${dialect.oneOf(raw('run'), 'text', runs)}`);
      await run(sql`DELETE FROM rollcall.run WHERE ${dialect.oneOf(raw('id'), 'text', runs)}`);
      await session.dropNames(runs);
    }
    const regulations = await regulationsToPrune(session, regulationsBefore, limit);
    if (regulations.length > 0) {
      const ofThese = dialect.oneOf(raw('regulation'), 'text', regulations);
      await run(sql`DELETE FROM rollcall.deletion WHERE ${ofThese}`);
      await run(sql`DELETE FROM rollcall.notice_confirmation WHERE ${ofThese}`);
      await run(sql`DELETE FROM rollcall.regulation WHERE ${dialect.oneOf(raw('id'), 'text', regulations)}`);
    }
    return Math.max(runs.length, regulations.length);
  });
}

/** Regulations to prune. There is rarely any, so runs are checked last. */
async function regulationsToPrune({ rows, dialect }: Session, before: number, limit: number): Promise<string[]> {
  const over = await rows<[string]>(prunableRegulations(dialect, before, limit));
  if (over.length === 0) return [];
  const [needed] = await rows<[number | null]>(neededSince(dialect));
  const since = needed?.[0] ?? null;
  const unneeded =
    since === null || since >= before ? over : await rows<[string]>(prunableRegulations(dialect, since, limit));
  return unneeded.map(([id]) => id);
}
