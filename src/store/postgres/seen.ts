import type { Context } from './context.ts';

/** How long a message id is remembered at least, in milliseconds. */
const WINDOW = 86_400_000;

/**
 * Parts of a WITH clause that note message ids; `fresh (id)` are those that were new. @param keys - a query for the ids
 */
export const remember = (now: string, keys: string) => `
fresh AS (
  INSERT INTO rollcall.seen (id) ${keys} ON CONFLICT (id) DO NOTHING RETURNING id
), remembered AS (
  INSERT INTO rollcall.seen_batch (at, size, ids)
  SELECT ${now}, cardinality(ids), ids FROM (SELECT array_agg(id) AS ids FROM fresh) AS batch WHERE ids IS NOT NULL
)`;

/** Forgets the oldest ids, about `limit` at most; resolves to their number. */
export function forget({ db }: Pick<Context, 'db'>, limit: number): Promise<number> {
  return db.run(
    `WITH gone AS (
       DELETE FROM rollcall.seen_batch WHERE id = ANY (ARRAY(
         SELECT id FROM (
           SELECT id, at, sum(size) OVER (ORDER BY id) - size AS before
           FROM (SELECT id, at, size FROM rollcall.seen_batch ORDER BY id LIMIT $1) AS oldest
         ) AS summed WHERE before < $1 AND at < ${db.now} - ${WINDOW}
       )) RETURNING ids
     )
     DELETE FROM rollcall.seen WHERE id = ANY (ARRAY(SELECT unnest(ids) FROM gone))`,
    [limit],
  );
}
