import {
  type Backlog,
  type EndpointState,
  isOrdinary,
  LANES,
  type OldestUntried,
  type Polled,
  refusalOf,
} from '../port.ts';
import { join, raw, type Sql, sql } from '../sql.ts';
import { READY } from '../states.ts';
import type { Session } from './session.ts';

const TIMES = ['paused_at', 'dead_since', 'refusing_since', 'refused_from', 'taken_at'];

type EndpointRow = [string, string, string | null, string | null, ...(number | null)[]];

function selectEndpoints({ time }: Session): Sql {
  const times = TIMES.map((column) => time.read(raw(column)));
  return sql`SELECT endpoint, destination, dead_cause, dead_answer, ${join(times, ', ')} FROM rollcall.endpoint`;
}

export async function endpoints(session: Session): Promise<EndpointState[]> {
  return (await session.rows<EndpointRow>(selectEndpoints(session))).map(endpointOf);
}

function endpointOf(row: EndpointRow): EndpointState {
  const [endpoint, destination, deadCause, deadAnswer, pausedAt = null, deadSince = null, ...refusal] = row;
  return {
    ...{ endpoint, destination, pausedAt, deadSince },
    ...(deadCause === null ? {} : { deadCause }),
    ...(deadAnswer === null ? {} : { deadAnswer }),
    ...refusalOf(...refusal),
  };
}

/** In one statement: a process that has nothing to do asks for nothing else. */
export async function poll(session: Session): Promise<Polled> {
  const found = await session.rows<EndpointRow | [null, string, null, null, number, number, number, number, null]>(sql`
    SELECT NULL, destination, NULL, NULL, pending, dead, queued, held_out, CAST(NULL AS bigint)
    FROM (${selectBacklog(session)}) AS counted UNION ALL ${selectEndpoints(session)}`);
  const polled: { backlogs: Backlog[]; endpoints: EndpointState[] } = { backlogs: [], endpoints: [] };
  for (const row of found) {
    if (row[0] !== null) polled.endpoints.push(endpointOf(row));
    else polled.backlogs.push(backlogOf([row[1], row[4], row[5], row[6], row[7]]));
  }
  return polled;
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

type BacklogRow = [string, number, number, number, number];
const SUMS = raw(
  ['pending', 'dead', 'queued', 'held_out'].map((name) => `CAST(sum(${name}) AS bigint) AS ${name}`).join(', '),
);

const selectBacklog = ({ dialect, backlog: counters }: Session): Sql =>
  sql`SELECT ${dialect.nameOf(raw('destination'))} AS destination, ${SUMS} FROM ${counters} GROUP BY backlog.destination`;

export async function backlog(session: Session): Promise<Backlog[]> {
  return (await session.rows<BacklogRow>(selectBacklog(session))).map(backlogOf);
}

function backlogOf([destination, pending, dead, queued, heldOut]: BacklogRow): Backlog {
  return { destination, pending, dead, queued, heldOut };
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
