import { raw, sql } from '../sql.ts';
import type { Session } from './session.ts';

/** Number of pruned rows and the last one's id; the previous last id if there were none. */
export interface Pruned {
  readonly count: number;
  readonly last: number;
}

/**
 * Drops rows written before `before`, at most `limit`, after the id `after`. Rows are in order of time: the oldest have
 * the smallest ids.
 */
export async function pruneOldest(
  { rows, run, time }: Session,
  table: 'attempt' | 'delivered',
  before: number,
  limit: number,
  after = 0,
): Promise<Pruned> {
  const old = sql`at < ${time.at(before)}`;
  const from = raw(`rollcall.${table}`);
  const [[end] = [null]] = await rows<[number | null]>(sql`
    SELECT max(id) FROM (SELECT id, at FROM ${from} WHERE id > ${after} ORDER BY id LIMIT ${limit}) AS oldest
    WHERE ${old}`);
  if (end === null) return { count: 0, last: after };
  const count = await run(sql`DELETE FROM ${from} WHERE id > ${after} AND id <= ${end} AND ${old}`);
  return { count, last: end };
}
