import { LANES, type LastSuccess, type OldestUntried, type Run } from '../port.ts';
import { raw, sql } from '../sql.ts';
import { READY } from '../states.ts';
import type { Session } from './session.ts';

/** Of each audience that the store knows the newest run that was done, found by the index of runs by key. */
export async function lastSuccesses({ rows }: Session): Promise<LastSuccess[]> {
  const found = await rows<[string]>(sql`
    SELECT run.record FROM rollcall.audience AS audience JOIN rollcall.run AS run ON run.seq = (
      SELECT seq FROM rollcall.run AS newest WHERE newest.key = audience.key AND newest.state = 'done'
      ORDER BY newest.started_at DESC, newest.seq DESC LIMIT 1)`);
  return found.map(([record]) => {
    const { key, members, finishedAt, startedAt } = JSON.parse(record) as Run;
    return { key, members, at: finishedAt ?? startedAt };
  });
}

/** One look into the index of what is ready for each destination and lane, however much waits. */
export async function oldestUntried({ rows, dialect, time, backlog }: Session): Promise<OldestUntried[]> {
  const oldest = new Map<string, number>();
  for (const lane of LANES.keys()) {
    const found = await rows<[string, number | null]>(sql`
      SELECT ${dialect.nameOf(raw('known.destination'))}, ${time.read(sql`(
        SELECT min(due_at) FROM rollcall.delivery
        WHERE destination = known.destination AND state = ${READY} AND ${dialect.untriedIn(lane)})`)}
      FROM (SELECT DISTINCT destination FROM ${backlog}) AS known`);
    for (const [destination, at] of found) {
      const since = time.wall(at);
      if (since !== null) oldest.set(destination, Math.min(since, oldest.get(destination) ?? since));
    }
  }
  return [...oldest].map(([destination, since]) => ({ destination, since }));
}
