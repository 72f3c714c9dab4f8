import type { Connection } from './connection.ts';

interface Counts {
  pending: number;
  dead: number;
  /** Of the pending ones, those that count towards the limit. */
  queued: number;
  heldOut: number;
}

/** Collects what a transaction adds to each destination's backlog, to write it once. */
export class BacklogChanges {
  private readonly db: Connection;
  private readonly changes = new Map<number, Counts>();
  /** What is written already, of destinations that were asked for. */
  private readonly written = new Map<number, Counts>();

  constructor(db: Connection) {
    this.db = db;
  }

  add(destination: number, { pending = 0, dead = 0, queued = 0, heldOut = 0 }: Partial<Counts>): void {
    const sum = this.changes.get(destination);
    if (!sum) this.changes.set(destination, { pending, dead, queued, heldOut });
    else {
      sum.pending += pending;
      sum.dead += dead;
      sum.queued += queued;
      sum.heldOut += heldOut;
    }
  }

  /** The counters as this transaction has changed them so far. */
  now(destination: number): Pick<Counts, 'queued' | 'heldOut'> {
    let written = this.written.get(destination);
    if (!written) {
      written = this.read(destination);
      this.written.set(destination, written);
    }
    const { queued = 0, heldOut = 0 } = this.changes.get(destination) ?? {};
    return { queued: written.queued + queued, heldOut: written.heldOut + heldOut };
  }

  /** Whether what is new has to be held out. While anything is, whatever is new joins it, so that the order holds. */
  isFull(destination: number, maxQueued: number): boolean {
    const { queued, heldOut } = this.now(destination);
    return heldOut > 0 || queued >= maxQueued;
  }

  write(): void {
    for (const [destination, { pending, dead, queued, heldOut }] of this.changes) {
      this.db.run(
        `INSERT INTO backlog VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (destination) DO UPDATE SET pending = pending + ?2, dead = dead + ?3, queued = queued + ?4, held_out = held_out + ?5`,
        destination,
        pending,
        dead,
        queued,
        heldOut,
      );
    }
  }

  private read(destination: number): Counts {
    const row = this.db.get<Record<'pending' | 'dead' | 'queued' | 'held_out', number>>(
      'SELECT pending, dead, queued, held_out FROM backlog WHERE destination = ?',
      destination,
    );
    return row ? { ...row, heldOut: row.held_out } : { pending: 0, dead: 0, queued: 0, heldOut: 0 };
  }
}

interface Progress {
  deliveries?: number;
  untried?: number;
  delivered?: number;
  dead?: number;
  superseded?: number;
}

/** Collects what a transaction changes in the progress of runs, to write it once. */
export class RunChanges {
  private readonly db: Connection;
  private readonly changes = new Map<number, Required<Progress>>();

  constructor(db: Connection) {
    this.db = db;
  }

  add(run: number, progress: Progress): void {
    let sum = this.changes.get(run);
    if (!sum) {
      sum = { deliveries: 0, untried: 0, delivered: 0, dead: 0, superseded: 0 };
      this.changes.set(run, sum);
    }
    sum.deliveries += progress.deliveries ?? 0;
    sum.untried += progress.untried ?? 0;
    sum.delivered += progress.delivered ?? 0;
    sum.dead += progress.dead ?? 0;
    sum.superseded += progress.superseded ?? 0;
  }

  write(): void {
    for (const [run, { deliveries, untried, delivered, dead, superseded }] of this.changes) {
      const name = this.db.name(run);
      // A run that was pruned has no name any more.
      if (name === '') continue;
      this.db.run(
        `INSERT INTO run_progress VALUES (?1, 0, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (run, part) DO UPDATE SET deliveries = deliveries + ?2, untried = untried + ?3,
           delivered = delivered + ?4, dead = dead + ?5, superseded = superseded + ?6`,
        name,
        deliveries,
        untried,
        delivered,
        dead,
        superseded,
      );
    }
  }
}
