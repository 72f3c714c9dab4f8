import { BACKLOG_COUNTS, type CounterChanges, type CounterValues, RUN_COUNTS } from '../changes.ts';
import { raw, sql } from '../sql.ts';
import { int4, text } from './arrays.ts';
import type { DatabaseSession } from './database.ts';

/** A query for a destination's counters: part 0, and the parts not folded yet. Both arguments are SQL. */
const partsOf = (destination: string, since: string) => `
  SELECT * FROM rollcall.backlog WHERE destination = ${destination} AND part = 0
  UNION ALL SELECT * FROM rollcall.backlog WHERE destination = ${destination} AND part >= ${since}`;

/** A query for the deliveries that count towards limits, and those held out. @param names - a query for destinations */
export const countersOf = (names: string, since: string) => `
  SELECT n.destination, coalesce(sum(b.queued), 0)::bigint AS queued, coalesce(sum(b.held_out), 0)::bigint AS held_out
  FROM (${names}) AS n (destination) LEFT JOIN LATERAL (${partsOf('n.destination', since)}) AS b ON true GROUP BY n.destination`;

/** A query for all destinations that have counters, with one seek for each. */
export const DESTINATIONS = `
  WITH RECURSIVE n (destination) AS (
    (SELECT destination FROM rollcall.backlog ORDER BY destination, part LIMIT 1)
    UNION ALL
    SELECT (SELECT b.destination FROM rollcall.backlog b WHERE b.destination > n.destination ORDER BY b.destination, b.part LIMIT 1)
    FROM n WHERE n.destination IS NOT NULL
  ) SELECT destination FROM n WHERE destination IS NOT NULL`;

/** All counters, for a FROM clause. */
export const backlogSince = (since: number) =>
  sql`(SELECT b.* FROM (${raw(DESTINATIONS)}) AS n, LATERAL (${raw(partsOf('n.destination', ''))}${since}) AS b) AS backlog`;

/** Parts of a counter that are in use at a time. Two writers to the same part only wait for each other's commit. */
export const PARTS = 32;
/** Milliseconds that a part is in use. */
export const PERIOD = 10_000;

/** The part to write to. By the database's time, as is folding, so that no write precedes the fold of its part. */
const partOf = (now: string, own: string) => `${now} / ${PERIOD} * ${PARTS} + ${own}`;

/** Changes of counters by the rows of a query: an SQL aggregate for each. Counters not named stay as they are. */
type Additions = { readonly [N in keyof CounterValues]?: string };

/**
 * Return parts of a WITH clause that add to the counters of destinations, and to those of runs if any of them is named.
 *
 * @param own - which of the parts in use to write to
 * @param rows - name of the rows to sum up, with columns `destination` and, if runs count, `run`
 */
export function counting(now: string, own: string, rows: string, additions: Additions): string {
  const part = partOf(now, own);
  const backlog = `counted AS (${addToPart(part, `SELECT destination, ${listOf(BACKLOG_COUNTS, additions)} FROM ${rows} GROUP BY destination`)})`;
  if (!RUN_COUNTS.some((name) => name in additions)) return backlog;
  const runs = `SELECT run, ${listOf(RUN_COUNTS, additions)} FROM ${rows} WHERE run IS NOT NULL GROUP BY run`;
  return `${backlog}, progressed AS (${addToProgress(part, runs)})`;
}

const listOf = (names: readonly (keyof CounterValues)[], additions: Additions) =>
  names.map((name) => additions[name] ?? '0').join(', ');

/** @param rows - a query for destination, pending, dead, queued, held_out */
export const addToPart = (part: string, rows: string) => `
  INSERT INTO rollcall.backlog (destination, part, pending, dead, queued, held_out)
  SELECT r.destination, ${part}, r.pending, r.dead, r.queued, r.held_out
  FROM (${rows}) AS r (destination, pending, dead, queued, held_out) ORDER BY r.destination
  ON CONFLICT (destination, part) DO UPDATE SET
    pending = backlog.pending + excluded.pending, dead = backlog.dead + excluded.dead,
    queued = backlog.queued + excluded.queued, held_out = backlog.held_out + excluded.held_out`;

/** @param rows - a query for run, deliveries, untried, delivered, dead, superseded */
const addToProgress = (part: string, rows: string) => `
  INSERT INTO rollcall.run_progress (run, part, deliveries, untried, delivered, dead, superseded)
  SELECT r.run, ${part}, r.deliveries, r.untried, r.delivered, r.dead, r.superseded
  FROM (${rows}) AS r (run, deliveries, untried, delivered, dead, superseded) ORDER BY r.run
  ON CONFLICT (run, part) DO UPDATE SET
    deliveries = run_progress.deliveries + excluded.deliveries, untried = run_progress.untried + excluded.untried,
    delivered = run_progress.delivered + excluded.delivered, dead = run_progress.dead + excluded.dead,
    superseded = run_progress.superseded + excluded.superseded`;

/** Aggregates over deliveries: the untried ones, and those of them that count towards the limit of their queue. */
export const UNTRIED_ONES = 'count(*) FILTER (WHERE tries = 0)';
export const QUEUED_ONES = 'count(*) FILTER (WHERE rank IN (1, 2, 7, 8))';
const listParameters = (names: readonly string[]) => names.map((_, index) => `$${index + 3}::int[]`).join(', ');
const givenSql = (names: readonly string[]) => `SELECT * FROM unnest($2::text[], ${listParameters(names)})`;

/** Write a transaction's changes of counters. Called at its end, so that no counter is locked for long. */
export async function writeChanges(
  now: string,
  session: DatabaseSession,
  own: number,
  changes: CounterChanges<string>,
): Promise<void> {
  const part = partOf(now, '$1');
  const write = async (sql: string, names: readonly (keyof CounterValues)[], all: CounterChanges<string>['runs']) => {
    if (all.length === 0) return;
    const columns = names.map((name) => int4(all, ([, counts]) => counts[name]));
    await session.run(sql, [own, text(all, ([name]) => name), ...columns]);
  };
  await write(addToPart(part, givenSql(BACKLOG_COUNTS)), BACKLOG_COUNTS, changes.destinations);
  await write(addToProgress(part, givenSql(RUN_COUNTS)), RUN_COUNTS, changes.runs);
}
