import type { Pruned } from '../../records/prune-oldest.ts';
import type { StoreContext } from '../context.ts';

/** Milliseconds for which a message id is remembered at least. */
const WINDOW = 86_400_000;

/**
 * Return parts of a WITH clause that remember message ids; `fresh (id)` are the new ones. Each is looked up first: ON
 * CONFLICT would write it provisionally under a lock, then confirm it. A statement clashes with another that is writing
 * the same id, and is run again.
 *
 * @param keys - a query for the ids, each once
 */
export const remember = (now: string, keys: string) => `
fresh AS (
  INSERT INTO rollcall.seen (id)
  SELECT k FROM (${keys}) AS given (k) WHERE (SELECT true FROM rollcall.seen s WHERE s.id = k) IS NULL ORDER BY k
  RETURNING id
), remembered AS (
  INSERT INTO rollcall.seen_batch (at, size, ids)
  SELECT ${now}, cardinality(ids), ids FROM (SELECT array_agg(id) AS ids FROM fresh) AS batch WHERE ids IS NOT NULL
)`;

const forgetSql = (now: string) => `
WITH gone AS (
  DELETE FROM rollcall.seen_batch WHERE id = ANY (ARRAY(
    SELECT id FROM (
      SELECT id, at, sum(size) OVER (ORDER BY id) - size AS before
      FROM (SELECT id, at, size FROM rollcall.seen_batch WHERE id > $2 ORDER BY id LIMIT $1) AS oldest
    ) AS summed WHERE before < $1 AND at < ${now} - ${WINDOW}
  )) RETURNING id, ids
), forgotten AS (
  DELETE FROM rollcall.seen WHERE id = ANY (ARRAY(SELECT unnest(ids) FROM gone)) RETURNING 1
)
SELECT (SELECT count(*) FROM forgotten), coalesce((SELECT max(id) FROM gone), $2)`;

/** Forget the oldest ids, about `limit` at most, of the batches after this one. */
export async function forget({ db }: Pick<StoreContext, 'db'>, limit: number, after: number): Promise<Pruned> {
  const [[count, last] = [0, after]] = await db.rows<[number, number]>(forgetSql(db.now), [limit, after]);
  return { count, last };
}
