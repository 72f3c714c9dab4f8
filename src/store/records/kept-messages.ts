import { sql } from '../sql.ts';
import type { Session } from './session.ts';

/** Rows measured together, once. */
const PART = 10_000;
/** Bytes of a row and its indexes, without the body. */
const ROW_BYTES = 300;

/**
 * Measures each part once it is full and sums the parts; rows after the last part are measured each time. Rows deleted
 * from a part continue to count.
 */
export function boundDelivered(session: Session, bytes: number, limit: number): Promise<number> {
  return session.transaction(async (session) => {
    await dropGone(session);
    const rest = await measure(session);
    const [oldest] = await session.rows<[begin: number, last: number, total: number]>(sql`
      SELECT begin_id, last_id, (SELECT CAST(sum(bytes) AS bigint) FROM rollcall.delivered_part)
      FROM rollcall.delivered_part ORDER BY begin_id LIMIT 1`);
    const [begin, last, total] = oldest ?? [null, rest.last, 0];
    if (total + rest.bytes <= bytes || last === null) return 0;
    const dropped = await session.run(sql`DELETE FROM rollcall.delivered WHERE id IN (
      SELECT id FROM rollcall.delivered WHERE id <= ${last} ORDER BY id LIMIT ${limit})`);
    if (dropped < limit && begin !== null) {
      await session.run(sql`DELETE FROM rollcall.delivered_part WHERE begin_id = ${begin}`);
      return limit;
    }
    return dropped;
  });
}

/** Drops parts whose rows are removed or do not exist yet: ids may be reused once the table is empty. */
async function dropGone({ run }: Session): Promise<void> {
  await run(sql`DELETE FROM rollcall.delivered_part
    WHERE last_id < coalesce((SELECT min(id) FROM rollcall.delivered), last_id + 1)
      OR last_id > coalesce((SELECT max(id) FROM rollcall.delivered), last_id - 1)`);
}

/** Measures the rows since the last part: full parts for good, the rest for now. */
async function measure({ rows, run }: Session): Promise<{ readonly last: number | null; readonly bytes: number }> {
  const [[measured] = [0]] = await rows<[number]>(sql`SELECT coalesce(max(last_id), 0) FROM rollcall.delivered_part`);
  for (let begin = measured; ; ) {
    const [part] = await rows<[last: number | null, count: number, bytes: number]>(sql`
      SELECT max(id), count(*), CAST(coalesce(sum(octet_length(body)), 0) AS bigint) FROM (
        SELECT id, body FROM rollcall.delivered WHERE id > ${begin} ORDER BY id LIMIT ${PART}) AS part`);
    const [last = null, count = 0, bodies = 0] = part ?? [];
    const bytes = bodies + count * ROW_BYTES;
    if (last === null || count < PART) return { last, bytes };
    // Another process may have measured it.
    await run(sql`INSERT INTO rollcall.delivered_part (begin_id, last_id, bytes) VALUES (${begin}, ${last}, ${bytes})
      ON CONFLICT (begin_id) DO NOTHING`);
    begin = last;
  }
}
