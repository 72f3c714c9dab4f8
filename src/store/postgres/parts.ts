import { addToPart, PARTS, PERIOD } from './counters.ts';
import type { Database } from './database.ts';
import { Seldom } from './seldom.ts';

/** Periods after which nobody writes to a part any more, except a transaction that takes very long. */
const RESTS = 2;

/**
 * The parts of the counters that a process adds to. Each update leaves a dead row, and each lookup passes all dead rows
 * of its row until vacuum may remove them. So a part is in use for some seconds only. Then `fold` adds its counts to
 * part 0, and nobody reads it again.
 */
export class CounterParts {
  /** Parts before this one are folded, as far as this process knows. */
  since = 1;
  /** Parts of each period that this process uses to accept and to settle, so that neither waits for the other. */
  readonly accept: number;
  readonly settle: number;
  private readonly db: Database;
  private readonly seldom: Seldom;

  constructor(db: Database) {
    this.db = db;
    this.seldom = new Seldom(db.clock);
    this.accept = Math.floor((db.clock.random() * PARTS) / 2) * 2;
    this.settle = this.accept + 1;
  }

  fold(): Promise<void> {
    const { db } = this;
    return this.seldom.run(async () => {
      const [[until] = [0]] = await db.patient<[until: number]>(foldSql(db.now));
      this.since = Math.max(1, until);
    });
  }
}

const foldSql = (now: string) => `
WITH rest AS MATERIALIZED (SELECT (${now} / ${PERIOD} - ${RESTS}) * ${PARTS} AS until
), folded AS (
  DELETE FROM rollcall.backlog WHERE part > 0 AND part < (SELECT until FROM rest)
  RETURNING destination, pending, dead, queued, held_out
), added AS (${addToPart(
  '0',
  'SELECT destination, sum(pending), sum(dead), sum(queued), sum(held_out) FROM folded GROUP BY destination',
)})
SELECT until FROM rest`;
