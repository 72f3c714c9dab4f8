import { requeue } from '../../queue/held-out.ts';
import type { QueueSession } from '../../queue/session.ts';

/** Milliseconds after acceptance at which a letter may become visible, since its commit takes time. */
const COMMIT = 12_000;

/** Requeues letters from where the last call stopped: requeued ones stay in the index until vacuum runs. */
export class Requeue {
  private readonly session: QueueSession;
  private readonly maxQueued: number;
  /** Time of acceptance of the last requeued letter per destination, by the database's clock. */
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
