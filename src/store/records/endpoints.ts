import { type Backlog, type EndpointState, isOrdinary, LANES, type OldestUntried, refusalOf } from '../port.ts';
import { join, raw, sql } from '../sql.ts';
import { READY } from '../states.ts';
import type { Session } from './session.ts';

const TIMES = ['paused_at', 'dead_since', 'refusing_since', 'refused_from', 'taken_at'];

export async function endpoints({ rows, time }: Session): Promise<EndpointState[]> {
  const times = TIMES.map((column) => time.read(raw(column)));
  const found = await rows<[string, string, string | null, string | null, ...(number | null)[]]>(
    sql`SELECT endpoint, destination, dead_cause, dead_answer, ${join(times, ', ')} FROM rollcall.endpoint`,
  );
  return found.map(([endpoint, destination, deadCause, deadAnswer, paused = null, dead = null, ...refusal]) => ({
    endpoint,
    destination,
    pausedAt: paused,
    deadSince: dead,
    ...(deadCause === null ? {} : { deadCause }),
    ...(deadAnswer === null ? {} : { deadAnswer }),
    ...refusalOf(...refusal),
  }));
}

export async function markEndpoint({ run, time }: Session, state: EndpointState): Promise<void> {
  const { endpoint, destination, pausedAt, deadSince, deadCause = null, deadAnswer = null, refusal } = state;
  if (isOrdinary(state)) {
    await run(sql`DELETE FROM rollcall.endpoint WHERE endpoint = ${endpoint}`);
    return;
  }
  const times = [pausedAt, deadSince, refusal?.since ?? null, refusal?.from ?? null, refusal?.takenAt ?? null];
  const changed = ['destination', 'dead_cause', 'dead_answer', ...TIMES]
    .map((column) => `${column} = excluded.${column}`)
    .join(', ');
  await run(sql`INSERT INTO rollcall.endpoint (endpoint, destination, dead_cause, dead_answer, ${raw(TIMES.join(', '))})
    VALUES (${endpoint}, ${destination}, ${deadCause}, ${deadAnswer}, ${join(
      times.map((at) => time.at(at)),
      ', ',
    )})
    ON CONFLICT (endpoint) DO UPDATE SET ${raw(changed)}`);
}

const SUMS = raw(['pending', 'dead', 'queued', 'held_out'].map((name) => `CAST(sum(${name}) AS bigint)`).join(', '));

export async function backlog({ rows, dialect, backlog: counters }: Session): Promise<Backlog[]> {
  const found = await rows<[string, number, number, number, number]>(
    sql`SELECT ${dialect.nameOf(raw('destination'))}, ${SUMS} FROM ${counters} GROUP BY destination`,
  );
  return found.map(([destination, pending, dead, queued, heldOut]) => ({
    destination,
    pending,
    dead,
    queued,
    heldOut,
  }));
}

/** A literal, since with a parameter the planner could not use the partial index. */
const IS_READY = raw(`state = ${READY}`);

/** One index lookup of ready deliveries per destination and lane, however many wait. */
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
