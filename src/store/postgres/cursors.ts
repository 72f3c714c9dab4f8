import type { Clock } from '../../kernel/clock.ts';
import type { ClaimRequest } from '../port.ts';
import { READY } from '../states.ts';
import type { StoreContext } from './context.ts';
import { DESTINATIONS } from './counters.ts';
import { ALL_RANKS, isRetry, RANKS, ranksOf } from './queue/ranks.ts';
import { Seldom } from './seldom.ts';

/** Milliseconds after its due time at which a ready delivery may become visible, since its commit takes time. */
const COMMIT = 500;
/** Milliseconds that a claim looks back now and then, for commits that took as long as a statement may. */
const LOOK_BACK = 12_000;
const LOOK_BACK_EVERY = 2_000;

/** The part of a rank that a claim took: the number of deliveries, and the due time of the last. */
export interface Taken {
  readonly count: number;
  readonly lastDue: number;
}

export interface ClaimLine {
  /** The earliest due time of a ready delivery per rank, as far as this process knows. */
  readonly starts: number[];
  lookedBackAt: number;
}

/**
 * The due times from which claims look for ready deliveries, by the database's clock. A claimed or deleted row stays in
 * the index until vacuum may remove it, which an open transaction delays for hours. A claim from the very front would
 * pass all of them each time. Since rows become ready with a due time no earlier than now, passed rows stay passed.
 *
 * Cursors only decide how soon a delivery is found. A sweep starts at the very front and finds deliveries that they
 * passed.
 */
export class Cursors {
  private readonly db: StoreContext['db'];
  private readonly clock: Clock;
  private readonly lines = new Map<string, ClaimLine>();
  /** Start of the lines that the last sweep found empty. */
  private swept = 0;
  private readonly seldom: Seldom;

  constructor({ db }: Pick<StoreContext, 'db'>) {
    this.db = db;
    this.clock = db.clock;
    this.seldom = new Seldom(db.clock);
  }

  line(destination: string): ClaimLine {
    let line = this.lines.get(destination);
    if (!line) {
      line = { starts: Array.from({ length: RANKS }, () => this.swept), lookedBackAt: Number.NEGATIVE_INFINITY };
      this.lines.set(destination, line);
    }
    return line;
  }

  starts(destination: string): readonly number[] {
    return this.line(destination).starts;
  }

  /** Like `starts`, for a claim: now and then further back. */
  startsOfClaim(line: ClaimLine): readonly number[] {
    const now = this.clock.monotonic();
    if (now - line.lookedBackAt < LOOK_BACK_EVERY) return line.starts;
    line.lookedBackAt = now;
    return line.starts.map((start) => Math.max(0, start - LOOK_BACK));
  }

  /**
   * Advance a line. A line that a sweep replaced during the claim stays as the sweep found it.
   *
   * @param taken - the deliveries claimed, by rank. @param now - the database's time of the claim
   */
  claimed(
    { starts }: ClaimLine,
    { order, limit, retries = limit }: ClaimRequest,
    taken: ReadonlyMap<number, Taken>,
    now: number,
  ) {
    let left = limit;
    for (const rank of ranksOf(order)) {
      if (left <= 0) return;
      const { count = 0, lastDue = now } = taken.get(rank) ?? {};
      if (count > 0 || !isRetry(rank) || retries > 0) starts[rank] = Math.min(lastDue, now - COMMIT);
      left -= count;
    }
  }

  /** Set the cursors of all destinations, starting at the very front. */
  sweep(): Promise<void> {
    return this.seldom.run(async () => {
      const rows = await this.db.patient<[string | null, number, number]>(sweepSql(this.db.now));
      this.lines.clear();
      for (const [destination, rank, due] of rows) {
        if (destination === null) this.swept = due - COMMIT;
        else this.line(destination).starts[rank] = Math.min(due, this.swept);
      }
    });
  }
}

/** First row: the time. Then the start of each line that is not empty. */
const sweepSql = (now: string) => `
SELECT NULL, 0, ${now}
UNION ALL
SELECT b.destination, t.rank, d.due_at
FROM (${DESTINATIONS}) AS b, unnest(${ALL_RANKS}) AS t (rank), LATERAL (
  SELECT due_at FROM rollcall.delivery
  WHERE state = ${READY} AND destination = b.destination AND rank = t.rank ORDER BY due_at LIMIT 1
) AS d`;
