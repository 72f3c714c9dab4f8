import { RETRY_WINDOW } from '../../../kernel/retry.ts';
import type { OwnOwners } from '../../own-owners.ts';
import { SERVED_GAP } from '../../port.ts';
import { READY } from '../../states.ts';
import type { StoreContext } from '../context.ts';
import { DESTINATIONS } from '../counters.ts';
import type { Claims, Free } from './claim.ts';
import { ALL_RANKS } from './ranks.ts';

export async function join({ db }: StoreContext, ttl: number): Promise<number> {
  const before = `SELECT min(served_since) FROM rollcall.owner WHERE lease_until > ${db.now} - ${SERVED_GAP}`;
  const sql = `INSERT INTO rollcall.owner (lease_until, served_since)
    VALUES (${db.now} + $1, coalesce((${before}), ${db.now})) RETURNING ${db.now}, id`;
  return (await timed(db, sql, [ttl]))[0] as number;
}

export async function heartbeat({ db }: StoreContext, owner: number, ttl: number): Promise<boolean> {
  const sql = `UPDATE rollcall.owner SET lease_until = ${db.now} + $2 WHERE id = $1 AND lease_until > ${db.now}
    RETURNING ${db.now}, id`;
  return (await timed(db, sql, [owner, ttl])).length > 0;
}

/** Return the ids that a statement returns after the database's time, to which the clock is compared. */
async function timed(db: StoreContext['db'], sql: string, values: readonly number[]): Promise<readonly number[]> {
  const asked = db.time.now();
  const rows = await db.rows<[number, number]>(sql, values);
  return rows.map(([theirs, id]) => {
    db.compare(theirs, asked);
    return id;
  });
}

export async function servedSince({ db }: StoreContext): Promise<number> {
  const [row] = await db.rows<[number | null]>(
    `SELECT min(served_since) - ${db.now} FROM rollcall.owner WHERE lease_until > ${db.now}`,
  );
  return db.local(row?.[0] ?? 0);
}

/** End the lease first, so that nothing more can be claimed under it. */
export async function leave({ db }: StoreContext, free: Free, owner: number): Promise<void> {
  await db.run(`UPDATE rollcall.owner SET lease_until = least(lease_until, ${db.now}) WHERE id = $1`, [owner]);
  await free(owner);
}

/** Milliseconds after which an owner is deleted: a statement that began under its lease may end after it. */
const FORGET_AFTER = 60_000;

/** Deliveries recalled at a time, per destination and rank. */
const RECALLED = 1_000;

export async function rescue({ db, parts }: StoreContext, free: Free, claims: Claims, own: OwnOwners): Promise<number> {
  await recallAbsurd(db);
  await claims.cursors.sweep();
  await parts.fold();
  const ended = await db.rows<[number]>(`SELECT id FROM rollcall.owner WHERE lease_until <= ${db.now} ORDER BY id`);
  let freed = await claims.freeUntold(free);
  for (const [owner] of ended) freed += await free(owner, undefined, !own.has(owner));
  if (ended.length > 0) await db.run(`DELETE FROM rollcall.owner WHERE lease_until <= ${db.now} - ${FORGET_AFTER}`);
  return freed;
}

/** Correct absurd due times: no retry is delayed beyond the retry window, so a later time is from a wrong clock. */
async function recallAbsurd(db: StoreContext['db']): Promise<void> {
  await db.run(
    `UPDATE rollcall.delivery SET due_at = ${db.now} WHERE id = ANY (ARRAY(
       SELECT q.id FROM (${DESTINATIONS}) AS b, unnest(${ALL_RANKS}) AS t (rank),
       LATERAL (
         SELECT d.id FROM rollcall.delivery d
         WHERE d.state = ${READY} AND d.destination = b.destination AND d.rank = t.rank
         AND d.due_at > ${db.now} + ${RETRY_WINDOW} LIMIT ${RECALLED} FOR UPDATE SKIP LOCKED
       ) AS q))`,
  );
}
