import { DISCARDS_KEPT, type Discard, type DiscardFilter, type DiscardPage } from '../port.ts';
import { join, raw, sql, where } from '../sql.ts';
import type { Session } from './session.ts';

/** Adds samples in order of time and drops all but the newest of their source. */
export function saveDiscards(session: Session, discards: readonly Discard[]): Promise<void> {
  return session.transaction(async ({ run, time }) => {
    for (const [source, theirs] of Map.groupBy(discards, (discard) => discard.source)) {
      const rows = theirs
        .slice(-DISCARDS_KEPT)
        .map(({ code, at, message }) => sql`(${source}, ${code}, ${time.atWall(at)}, ${message})`);
      await run(sql`INSERT INTO rollcall.discard (source, code, at, message) VALUES ${join(rows, ', ')}`);
      await run(sql`DELETE FROM rollcall.discard WHERE source = ${source} AND id <= (
        SELECT id FROM rollcall.discard WHERE source = ${source} ORDER BY id DESC LIMIT 1 OFFSET ${DISCARDS_KEPT})`);
    }
  });
}

type DiscardRow = readonly [id: number, source: string, code: string, at: number, message: string];

/** Newest first. */
export async function discards(session: Session, filter: DiscardFilter): Promise<readonly Discard[]> {
  return (await discardPage(session, filter, null)).discards;
}

export async function discardPage(
  { rows, time }: Session,
  { source, limit }: DiscardFilter,
  before: number | null,
): Promise<DiscardPage> {
  const wanted = where(
    source === undefined ? null : sql`source = ${source}`,
    before === null ? null : sql`id < ${before}`,
  );
  const found = await rows<DiscardRow>(sql`
    SELECT id, source, code, ${time.read(raw('at'))}, message FROM rollcall.discard ${wanted}
    ORDER BY id DESC LIMIT ${limit + 1}`);
  const page = found.slice(0, limit);
  return {
    discards: page.map(([, source, code, at, message]) => ({ source, code, at: time.wall(at), message })),
    next: found.length > limit ? (page.at(-1)?.[0] ?? null) : null,
  };
}

/**
 * Drops samples of discards that name one of these users. A sample has no user ids, but an event's name may contain one. Short ids
 * also occur inside other words, so only whole values count for them.
 */
export function forgetDiscards(
  session: Session,
  users: readonly string[],
  sources: readonly string[] | null,
): Promise<void> {
  return session.transaction(async ({ rows, run, dialect }) => {
    const inScope = where(sources === null ? null : dialect.oneOf(raw('source'), 'text', sources));
    const samples = await rows<[number, string]>(sql`SELECT id, message FROM rollcall.discard ${inScope}`);
    const needles = users.map((user) => {
      const quoted = JSON.stringify(user);
      return user.length < SHORTEST ? quoted : quoted.slice(1, -1);
    });
    const naming = samples.filter(([, message]) => needles.some((needle) => message.includes(needle)));
    await run(
      sql`DELETE FROM rollcall.discard WHERE ${dialect.oneOf(
        raw('id'),
        'id',
        naming.map(([id]) => id),
      )}`,
    );
  });
}

const SHORTEST = 3;
