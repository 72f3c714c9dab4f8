import { LANES, type LastSuccess, type OldestUntried, type Run } from '../port.ts';
import { join, raw, sql } from '../sql.ts';
import { READY } from '../states.ts';
import type { Session } from './session.ts';

/** A parameter would not tell which rows the index has. */
const IS_READY = raw(`state = ${READY}`);

/** Of each audience that the store knows the newest run that was done, found by the index of runs by key. */
export async function lastSuccesses({ rows }: Session): Promise<LastSuccess[]> {
  const found = await rows<[string]>(sql`
    SELECT run.record FROM rollcall.audience AS audience JOIN rollcall.run AS run ON run.id = (
      SELECT newest.id FROM rollcall.run AS newest WHERE newest.key = audience.key AND newest.state = 'done'
      ORDER BY newest.started_at DESC, newest.seq DESC LIMIT 1)`);
  return found.map(([record]) => {
    const { key, members, finishedAt, startedAt } = JSON.parse(record) as Run;
    return { key, members, at: finishedAt ?? startedAt };
  });
}

/** One look into the index of what is ready for each destination and lane, however much waits. */
export async function oldestUntried({ rows, dialect, time, backlog }: Session): Promise<OldestUntried[]> {
  const oldest = [...LANES.keys()].map((lane) =>
    time.read(sql`(SELECT min(due_at) FROM rollcall.delivery
      WHERE destination = known.destination AND ${IS_READY} AND ${dialect.untriedIn(lane)})`),
  );
  const found = await rows<[string, ...(number | null)[]]>(sql`
    SELECT ${dialect.nameOf(raw('known.destination'))}, ${join(oldest, ', ')}
    FROM (SELECT DISTINCT destination FROM ${backlog}) AS known`);
  return found.flatMap(([destination, ...times]) => {
    const waiting = times.filter((at) => at !== null);
    return waiting.length > 0 ? [{ destination, since: time.wall(Math.min(...waiting)) }] : [];
  });
}
