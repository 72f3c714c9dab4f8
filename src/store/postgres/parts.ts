import { addToBacklog } from './counters.ts';
import type { Database } from './database.ts';
import { Seldom } from './seldom.ts';

/** Parts of each counter that are written to at a time. Two writers with the same part only wait for each other's commit. */
const PARTS = 32;
/** How long they are written to, in milliseconds. */
const PERIOD = 10_000;
/** Periods after which nobody writes to a part any more, but for a transaction that takes very long. */
const RESTS = 2;

/**
 * The parts of the counters that a process adds to. Each update leaves a dead row behind, and all those of a row are passed
 * whenever it is looked up, until vacuum may remove them. So a part is written to for some seconds only; then `fold` adds
 * what it holds to part 0, and nobody looks at it again.
 */
export class Parts {
  /** Those before are folded, as far as this process knows. */
  since = 1;
  private readonly db: Database;
  private readonly own: number;
  /** How far the database's time is ahead of this process's steady clock. */
  private ahead: number;
  private readonly seldom: Seldom;

  /** @param now - the database's time */
  constructor(db: Database, now: number) {
    this.db = db;
    this.seldom = new Seldom(db.clock);
    this.own = Math.floor((db.clock.random() * PARTS) / 2) * 2;
    this.ahead = now - db.clock.monotonic();
  }

  /** Accepts and settlements never wait for each other's. */
  get accept(): number {
    return Math.floor((this.db.clock.monotonic() + this.ahead) / PERIOD) * PARTS + this.own;
  }

  get settle(): number {
    return this.accept + 1;
  }

  /** Adds up the parts that rest. */
  fold(): Promise<void> {
    const { db } = this;
    return this.seldom.run(async () => {
      const [[now, until] = [0, 0]] = await db.patient<[now: number, until: number]>(foldSql(db.now));
      this.ahead = now - db.clock.monotonic();
      this.since = Math.max(1, until);
    });
  }
}

const foldSql = (now: string) => `
WITH rest AS MATERIALIZED (SELECT (${now} / ${PERIOD} - ${RESTS}) * ${PARTS} AS until
), folded AS (
  DELETE FROM rollcall.backlog WHERE part > 0 AND part < (SELECT until FROM rest)
  RETURNING destination, pending, dead, queued, held_out
), added AS (${addToBacklog(
  '0',
  'SELECT destination, sum(pending), sum(dead), sum(queued), sum(held_out) FROM folded GROUP BY destination',
)})
SELECT ${now}, until FROM rest`;
