import type { CounterChanges } from '../changes.ts';
import type { Connection } from './connection.ts';

interface QueueSize {
  readonly queued: number;
  readonly heldOut: number;
}

/** Sizes of queues, including the transaction's changes so far. */
export class QueueCounters {
  private readonly db: Connection;
  private readonly changes: CounterChanges<number>;
  /** Stored counters of the destinations asked about so far. */
  private readonly written = new Map<number, QueueSize>();

  constructor(db: Connection, changes: CounterChanges<number>) {
    this.db = db;
    this.changes = changes;
  }

  of(destination: number): QueueSize {
    let written = this.written.get(destination);
    if (!written) {
      written = this.read(destination);
      this.written.set(destination, written);
    }
    const { queued, heldOut } = this.changes.of(destination);
    return { queued: written.queued + queued, heldOut: written.heldOut + heldOut };
  }

  /** True if new deliveries must be held out. While any are, all new ones join them, so that the order holds. */
  isFull(destination: number, maxQueued: number): boolean {
    const { queued, heldOut } = this.of(destination);
    return heldOut > 0 || queued >= maxQueued;
  }

  private read(destination: number): QueueSize {
    const [[queued, heldOut] = [0, 0]] = this.db.tuples<[number, number]>(
      'SELECT queued, held_out FROM backlog WHERE destination = ?',
      destination,
    );
    return { queued, heldOut };
  }
}

export function writeChanges(db: Connection, changes: CounterChanges<number>): void {
  for (const [destination, { pending, dead, queued, heldOut }] of changes.destinations) {
    db.run(
      `INSERT INTO backlog (destination, pending, dead, queued, held_out) VALUES (?1, ?2, ?3, ?4, ?5)
       ON CONFLICT (destination) DO UPDATE SET pending = pending + ?2, dead = dead + ?3, queued = queued + ?4, held_out = held_out + ?5`,
      ...[destination, pending, dead, queued, heldOut],
    );
  }
  for (const [run, { deliveries, untried, delivered, died, superseded }] of changes.runs) {
    const name = db.name(run);
    // A pruned run has no name any more.
    if (name === '') continue;
    db.run(
      `INSERT INTO run_progress (run, part, deliveries, untried, delivered, dead, superseded)
       VALUES (?1, 0, ?2, ?3, ?4, ?5, ?6)
       ON CONFLICT (run, part) DO UPDATE SET deliveries = deliveries + ?2, untried = untried + ?3,
         delivered = delivered + ?4, dead = dead + ?5, superseded = superseded + ?6`,
      ...[name, deliveries, untried, delivered, died, superseded],
    );
  }
}
