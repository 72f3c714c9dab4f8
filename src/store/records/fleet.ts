import { createHash } from 'node:crypto';
import type { Fence, Orphan, Owner, Roster } from '../port.ts';
import { raw, sql } from '../sql.ts';
import { checkFence } from './fence.ts';
import type { Session } from './session.ts';

/** Retention of an unused roster, in milliseconds: another process may be about to publish it. */
const KEEP = 86_400_000;

export async function owners({ rows, time }: Session): Promise<Owner[]> {
  const found = await rows<[number, string | null]>(
    sql`SELECT id, roster FROM rollcall.owner WHERE lease_until > ${time.now} ORDER BY id`,
  );
  return found.map(([id, roster]) => ({ id, roster }));
}

export function publish(session: Session, owner: number, roster: Roster): Promise<void> {
  const id = rosterId(roster);
  const names = roster.destinations.map(({ name }) => name);
  return session.transaction(async ({ run, time, dialect }) => {
    await run(sql`INSERT INTO rollcall.roster (id, written_at, record)
      VALUES (${id}, ${time.now}, ${JSON.stringify(roster)})
      ON CONFLICT (id) DO UPDATE SET written_at = excluded.written_at`);
    await run(sql`UPDATE rollcall.owner SET roster = ${id} WHERE id = ${owner}`);
    await run(sql`DELETE FROM rollcall.orphan WHERE ${dialect.oneOf(raw('destination'), 'text', names)}`);
    await run(sql`DELETE FROM rollcall.roster WHERE written_at < ${time.now} - ${KEEP}
      AND NOT EXISTS (SELECT 1 FROM rollcall.owner AS o WHERE o.roster = roster.id)`);
  });
}

export async function rosters({ rows, dialect }: Session, ids: readonly string[]): Promise<Map<string, Roster>> {
  const found = await rows<[string, string]>(
    sql`SELECT id, record FROM rollcall.roster WHERE ${dialect.oneOf(raw('id'), 'text', ids)}`,
  );
  return new Map(found.map(([id, record]) => [id, JSON.parse(record) as Roster]));
}

const PENDING = raw('sum(pending + held_out)');

export async function orphans(session: Session): Promise<Orphan[]> {
  const { rows, time, dialect } = session;
  const pending = await rows<[string, number]>(
    sql`SELECT ${dialect.nameOf(raw('destination'))}, CAST(${PENDING} AS bigint) FROM ${session.backlog}
      GROUP BY destination HAVING ${PENDING} > 0 ORDER BY 1`,
  );
  if (pending.length === 0) return [];
  const known = await knownDestinations(session);
  const counted = new Map(
    (
      await rows<[string, number, number]>(
        sql`SELECT destination, ${time.read(raw('since'))}, unknown_for FROM rollcall.orphan`,
      )
    ).map(([destination, since, unknownFor]) => [destination, { since, unknownFor }]),
  );
  return pending
    .filter(([destination]) => !known.has(destination))
    .map(([destination, pending]) => ({
      ...{ destination, pending, since: null, unknownFor: 0 },
      ...counted.get(destination),
    }));
}

async function knownDestinations({ rows, time }: Session): Promise<ReadonlySet<string>> {
  const published = await rows<[string]>(sql`SELECT record FROM rollcall.roster
    WHERE id IN (SELECT roster FROM rollcall.owner WHERE lease_until > ${time.now})`);
  return new Set(published.flatMap(([record]) => (JSON.parse(record) as Roster).destinations.map(({ name }) => name)));
}

export async function countOrphans(session: Session, fence: Fence, elapsed: number): Promise<Orphan[]> {
  // Mostly nothing waits anywhere.
  const [[pending, counted] = []] = await session.rows<[number | null, number]>(
    sql`SELECT (SELECT CAST(${PENDING} AS bigint) FROM ${session.backlog}), (SELECT count(*) FROM rollcall.orphan)`,
  );
  if (!pending && !counted) return [];
  return session.transaction(async (session) => {
    const { rows, run, time, dialect } = session;
    await checkFence(session, fence);
    const silent = await rows(sql`SELECT 1 FROM rollcall.owner AS o WHERE o.lease_until > ${time.now}
      AND NOT EXISTS (SELECT 1 FROM rollcall.roster AS r WHERE r.id = o.roster) LIMIT 1`);
    if (silent.length > 0) return orphans(session);
    const names = (await orphans(session)).map(({ destination }) => destination);
    await run(sql`DELETE FROM rollcall.orphan WHERE NOT ${dialect.oneOf(raw('destination'), 'text', names)}`);
    if (names.length === 0) return [];
    await run(sql`UPDATE rollcall.orphan SET unknown_for = unknown_for + ${elapsed}`);
    await run(sql`INSERT INTO rollcall.orphan (destination, since, unknown_for)
      SELECT value, ${time.now}, 0 FROM ${dialect.rowsOf('text', names)} WHERE true ON CONFLICT DO NOTHING`);
    return orphans(session);
  });
}

/** True if no process has known it for that long. A concurrent publish waits for the transaction, or came first. */
export async function isUnknownFor(session: Session, destination: string, unknownFor: number): Promise<boolean> {
  const query = sql`SELECT 1 FROM rollcall.orphan
    WHERE destination = ${destination} AND unknown_for >= ${unknownFor} ${session.dialect.forUpdate}`;
  return (await session.rows(query)).length > 0;
}

/** Processes that know the same destinations publish the same id, so a roster is written and read only once. */
function rosterId(roster: Roster): string {
  return createHash('sha256').update(JSON.stringify(roster)).digest('hex').slice(0, 32);
}
