import { raw, sql } from '../sql.ts';
import { int4, text } from './arrays.ts';
import type { Session } from './database.ts';

/** A query for what counts of a destination: part 0, and those that are not folded. Both are SQL. */
const partsOf = (destination: string, since: string) => `
  SELECT * FROM rollcall.backlog WHERE destination = ${destination} AND part = 0
  UNION ALL SELECT * FROM rollcall.backlog WHERE destination = ${destination} AND part >= ${since}`;

/**
 * What counts towards the limits of destinations, and what is held out of their queues. @param names - a query for their
 * names
 */
export const countersOf = (names: string, since: string) => `
  SELECT n.destination, coalesce(sum(b.queued), 0)::bigint AS queued, coalesce(sum(b.held_out), 0)::bigint AS held_out
  FROM (${names}) AS n (destination) LEFT JOIN LATERAL (${partsOf('n.destination', since)}) AS b ON true GROUP BY n.destination`;

/** A query for all destinations that have counters, by a seek for each. */
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

/** Parts of each counter that are written to at a time. Two writers with the same part only wait for each other's commit. */
export const PARTS = 32;
/** How long they are written to, in milliseconds. */
export const PERIOD = 10_000;

/** By the database's time, which is also that by which parts are folded: what is written is never before what is folded. */
const partOf = (now: string, own: string) => `${now} / ${PERIOD} * ${PARTS} + ${own}`;

/**
 * SQL that adds to the backlog.
 *
 * @param own - which of the parts that are written to at this time
 * @param rows - a query for destination, pending, dead, queued, held_out
 */
export const addToBacklog = (now: string, own: string, rows: string) => addToPart(partOf(now, own), rows);

/** As `addToBacklog`, to a part that is named. */
export const addToPart = (part: string, rows: string) => `
  INSERT INTO rollcall.backlog (destination, part, pending, dead, queued, held_out)
  SELECT r.destination, ${part}, r.pending, r.dead, r.queued, r.held_out
  FROM (${rows}) AS r (destination, pending, dead, queued, held_out) ORDER BY r.destination
  ON CONFLICT (destination, part) DO UPDATE SET
    pending = backlog.pending + excluded.pending, dead = backlog.dead + excluded.dead,
    queued = backlog.queued + excluded.queued, held_out = backlog.held_out + excluded.held_out`;

/** SQL for how many of a query's deliveries counted towards the limit of their queue. */
export const QUEUED = 'count(*) FILTER (WHERE rank IN (1, 2, 7, 8))';

/** As `addToBacklog`, for the progress of runs; `rows` is a query for run, deliveries, untried, delivered, dead, superseded. */
export const addToProgress = (now: string, own: string, rows: string) => `
  INSERT INTO rollcall.run_progress (run, part, deliveries, untried, delivered, dead, superseded)
  SELECT r.run, ${partOf(now, own)}, r.deliveries, r.untried, r.delivered, r.dead, r.superseded
  FROM (${rows}) AS r (run, deliveries, untried, delivered, dead, superseded) ORDER BY r.run
  ON CONFLICT (run, part) DO UPDATE SET
    deliveries = run_progress.deliveries + excluded.deliveries, untried = run_progress.untried + excluded.untried,
    delivered = run_progress.delivered + excluded.delivered, dead = run_progress.dead + excluded.dead,
    superseded = run_progress.superseded + excluded.superseded`;

interface Change {
  readonly destination: string;
  readonly run: string | null;
  readonly pending?: number;
  readonly dead?: number;
  readonly queued?: number;
  readonly heldOut?: number;
  readonly deliveries?: number;
  readonly untried?: number;
  readonly delivered?: number;
  readonly died?: number;
  readonly superseded?: number;
}

const backlogSql = (now: string) =>
  addToBacklog(now, '$1', 'SELECT * FROM unnest($2::text[], $3::int[], $4::int[], $5::int[], $6::int[])');
const progressSql = (now: string) =>
  addToProgress(now, '$1', 'SELECT * FROM unnest($2::text[], $3::int[], $4::int[], $5::int[], $6::int[], $7::int[])');

type Sums = Required<Omit<Change, 'destination' | 'run'>>;
const NOTHING: Sums = {
  ...{ pending: 0, dead: 0, queued: 0, heldOut: 0 },
  ...{ deliveries: 0, untried: 0, delivered: 0, died: 0, superseded: 0 },
};

/** Sums up what a transaction of several statements changes, to write it at its end: then no counter is held for long. */
export class Changes {
  private readonly backlog = new Map<string, Sums>();
  private readonly progress = new Map<string, Sums>();

  add({ destination, run, ...change }: Change): void {
    sum(this.backlog, destination, change);
    if (run !== null) sum(this.progress, run, change);
  }

  /** What a destination's counters have changed by so far. */
  of(destination: string): Pick<Sums, 'queued' | 'heldOut'> {
    return this.backlog.get(destination) ?? NOTHING;
  }

  async write(now: string, session: Session, part: number): Promise<void> {
    const names = ['pending', 'dead', 'queued', 'heldOut'] as const;
    const backlog = [...this.backlog].filter(([, sums]) => names.some((name) => sums[name] !== 0));
    if (backlog.length > 0) {
      const columns = names.map((name) => int4(backlog, ([, sums]) => sums[name]));
      await session.run(backlogSql(now), [part, text(backlog, ([name]) => name), ...columns]);
    }
    const progress = [...this.progress];
    if (progress.length > 0) {
      const column = (name: keyof Sums) => int4(progress, ([, sums]) => sums[name]);
      const columns = (['deliveries', 'untried', 'delivered', 'died', 'superseded'] as const).map(column);
      await session.run(progressSql(now), [part, text(progress, ([run]) => run), ...columns]);
    }
  }
}

function sum(into: Map<string, Sums>, key: string, change: Partial<Sums>): void {
  const sums = { ...(into.get(key) ?? NOTHING) };
  for (const [name, value] of Object.entries(change)) sums[name as keyof Sums] += value;
  into.set(key, sums);
}
