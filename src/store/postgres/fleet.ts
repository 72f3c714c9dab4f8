import type { Fence, Orphan, Roster } from '../port.ts';
import { rosterId } from '../roster.ts';
import { checkFence } from './accept-alone.ts';
import { text } from './arrays.ts';
import type { Context } from './context.ts';
import type { Session } from './database.ts';

/** A roster that nobody has is kept this long: another process may be about to publish it. Milliseconds. */
const KEEP = 86_400_000;

export function publish({ db }: Context, owner: number, roster: Roster): Promise<void> {
  const id = rosterId(roster);
  const names = text(roster.destinations.map(({ name }) => name));
  return db.transaction(async (session) => {
    await session.run(
      `INSERT INTO rollcall.roster (id, written_at, names, record) VALUES ($1, ${db.now}, $2, $3)
       ON CONFLICT (id) DO UPDATE SET written_at = excluded.written_at`,
      [id, names, JSON.stringify(roster)],
    );
    await session.run('UPDATE rollcall.owner SET roster = $1 WHERE id = $2', [id, owner]);
    await session.run('DELETE FROM rollcall.orphan WHERE destination = ANY ($1::text[])', [names]);
    await session.run(
      `DELETE FROM rollcall.roster r WHERE written_at < ${db.now} - ${KEEP}
         AND NOT EXISTS (SELECT 1 FROM rollcall.owner o WHERE o.roster = r.id)`,
    );
  });
}

export async function rosters({ db }: Context, ids: readonly string[]): Promise<ReadonlyMap<string, Roster>> {
  const sql = 'SELECT id, record FROM rollcall.roster WHERE id = ANY ($1::text[])';
  const rows = await db.rows<[string, string]>(sql, [text(ids)]);
  return new Map(rows.map(([id, record]) => [id, JSON.parse(record) as Roster]));
}

export const orphans = ({ db }: Context): Promise<readonly Orphan[]> => orphansOf(db, db);

async function orphansOf(session: Session, db: Context['db']): Promise<readonly Orphan[]> {
  const rows = await session.rows<[string, number, number | null, number]>(
    `SELECT p.destination, p.pending, o.since - ${db.now}, coalesce(o.unknown_for, 0)::bigint FROM (
       SELECT destination, sum(pending + held_out)::bigint AS pending FROM rollcall.backlog
       GROUP BY destination HAVING sum(pending + held_out) > 0
     ) AS p LEFT JOIN rollcall.orphan o ON o.destination = p.destination
     WHERE p.destination NOT IN (
       SELECT unnest(r.names) FROM rollcall.roster r
       WHERE r.id IN (SELECT roster FROM rollcall.owner WHERE lease_until > ${db.now}))
     ORDER BY p.destination`,
  );
  return rows.map(([destination, pending, since, unknownFor]) => ({
    destination,
    pending,
    since: db.local(since),
    unknownFor,
  }));
}

export function countOrphans({ db }: Context, fence: Fence, elapsed: number): Promise<readonly Orphan[]> {
  return db.transaction(async (session) => {
    await checkFence(session, fence);
    const silent = await session.rows(
      `SELECT 1 FROM rollcall.owner o WHERE o.lease_until > ${db.now}
         AND NOT EXISTS (SELECT 1 FROM rollcall.roster r WHERE r.id = o.roster) LIMIT 1`,
    );
    if (silent.length > 0) return orphansOf(session, db);
    const names = text((await orphansOf(session, db)).map(({ destination }) => destination));
    await session.run('DELETE FROM rollcall.orphan WHERE NOT destination = ANY ($1::text[])', [names]);
    await session.run(
      `INSERT INTO rollcall.orphan (destination, since, unknown_for) SELECT unnest($1::text[]), ${db.now}, 0
       ON CONFLICT (destination) DO UPDATE SET unknown_for = orphan.unknown_for + $2::bigint`,
      [names, elapsed],
    );
    return orphansOf(session, db);
  });
}

/** Whether nobody has known it for so long. Whoever publishes it waits until the transaction ends, or was before it. */
export async function isUnknownFor(session: Session, destination: string, unknownFor: number): Promise<boolean> {
  const sql = 'SELECT 1 FROM rollcall.orphan WHERE destination = $1 AND unknown_for >= $2 FOR UPDATE';
  return (await session.rows(sql, [destination, unknownFor])).length > 0;
}
