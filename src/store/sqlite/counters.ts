import { RollcallError } from '../../errors.ts';
import type { Connection } from './connection.ts';

/** Collects what a transaction adds to each destination's backlog, to write it once. */
export class BacklogChanges {
  private readonly db: Connection;
  private readonly changes = new Map<number, { pending: number; dead: number; limited: boolean }>();

  constructor(db: Connection) {
    this.db = db;
  }

  /** Deletion notices are exempt from the limit: a full queue must not keep a user's data alive. */
  add(destination: number, pending: number, dead: number, exempt = false): void {
    const change = this.changes.get(destination);
    const limited = pending > 0 && !exempt;
    if (!change) this.changes.set(destination, { pending, dead, limited });
    else {
      change.pending += pending;
      change.dead += dead;
      change.limited ||= limited;
    }
  }

  /** @throws RollcallError `queue_full` when a destination would hold more than `maxQueued` */
  write(maxQueued = Number.POSITIVE_INFINITY): void {
    for (const [destination, { pending, dead, limited }] of this.changes) {
      this.db.run(
        `INSERT INTO backlog VALUES (?1, ?2, ?3)
         ON CONFLICT (destination) DO UPDATE SET pending = pending + ?2, dead = dead + ?3`,
        destination,
        pending,
        dead,
      );
      if (!limited || pending <= 0) continue;
      const row = this.db.get<{ pending: number }>('SELECT pending FROM backlog WHERE destination = ?', destination);
      if (row && row.pending > maxQueued) {
        const name = this.db.name(destination);
        throw new RollcallError('queue_full', `Destination ${name} has ${maxQueued} undelivered messages; try later.`);
      }
    }
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
      this.db.run(
        `UPDATE run SET deliveries = deliveries + ?, untried = untried + ?, delivered = delivered + ?,
           dead = dead + ?, superseded = superseded + ? WHERE id = ?`,
        deliveries,
        untried,
        delivered,
        dead,
        superseded,
        run,
      );
    }
  }
}
