import type { Clock } from '../../kernel/clock.ts';
import type { ClaimRequest } from '../port.ts';
import { READY } from '../states.ts';
import type { StoreContext } from './context.ts';
import { DESTINATIONS } from './counters.ts';
import { ALL_RANKS, isRetry, RANKS, ranksOf } from './queue/ranks.ts';
import { Seldom } from './seldom.ts';

/** A delivery that becomes ready may be seen this much later than its due time, while its commit is under way. Milliseconds. */
const COMMIT = 500;
/** Now and then a claim looks further back, for commits that took as long as a statement may. Milliseconds. */
const LOOK_BACK = 12_000;
const LOOK_BACK_EVERY = 2_000;

/** The part of a rank that a claim took: how many, and when the last of them was due. */
export interface Taken {
  readonly count: number;
  readonly lastDue: number;
}

/** Of a destination. */
export interface ClaimLine {
  /** By rank: nothing that is due before is ready, as far as this process knows. */
  readonly starts: number[];
  lookedBackAt: number;
}

/**
 * From where on claims look for ready deliveries, by the database's clock. A row that is claimed or deleted stays in
 * the index until vacuum may remove it, which an open transaction puts off for hours. A claim that began at the front
 * would pass all of them each time. Since rows become ready at a due time no earlier than now, what was passed once
 * stays passed.
 *
 * Cursors only decide how soon a delivery is found. A sweep looks from the very front and finds what they passed over.
 */
export class Cursors {
  private readonly db: StoreContext['db'];
  private readonly clock: Clock;
  private readonly lines = new Map<string, ClaimLine>();
  /** Where lines begin that the last sweep found empty. */
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

  /** By rank. */
  starts(destination: string): readonly number[] {
    return this.line(destination).starts;
  }

  /** As `starts`, for a claim: now and then further back. */
  startsOfClaim(line: ClaimLine): readonly number[] {
    const now = this.clock.monotonic();
    if (now - line.lookedBackAt < LOOK_BACK_EVERY) return line.starts;
    line.lookedBackAt = now;
    return line.starts.map((start) => Math.max(0, start - LOOK_BACK));
  }

  /**
   * Moves a line on. One that a sweep has replaced during the claim stays as it found it.
   *
   * @param taken - by rank, what a claim got. @param now - the database's time of the claim
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

  /** Looks from the very front, for all destinations. */
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

/** First the time, then where each line begins that is not empty. */
const sweepSql = (now: string) => `
SELECT NULL, 0, ${now}
UNION ALL
SELECT b.destination, t.rank, d.due_at
FROM (${DESTINATIONS}) AS b, unnest(${ALL_RANKS}) AS t (rank), LATERAL (
  SELECT due_at FROM rollcall.delivery
  WHERE state = ${READY} AND destination = b.destination AND rank = t.rank ORDER BY due_at LIMIT 1
) AS d`;
