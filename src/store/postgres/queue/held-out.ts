import { requeue } from '../../queue/held-out.ts';
import type { QueueSession } from '../../queue/session.ts';

/** A letter may be seen this much later than it was accepted, while its commit is under way. Milliseconds. */
const COMMIT = 12_000;

/** Queues letters again, from where it was on: those that it queued are passed until vacuum may remove them. */
export class Requeue {
  private readonly session: QueueSession;
  private readonly maxQueued: number;
  /** By destination, when the last letter was accepted that was queued again, by the database's clock. */
  private readonly fronts = new Map<string, number>();

  constructor(session: QueueSession, maxQueued: number) {
    this.session = session;
    this.maxQueued = maxQueued;
  }

  async run(destination: string, limit: number): Promise<number> {
    const from = (this.fronts.get(destination) ?? COMMIT) - COMMIT;
    const { count, last } = await requeue(this.session, destination, this.maxQueued, limit, from);
    if (last !== null) this.fronts.set(destination, last);
    return count;
  }
}
