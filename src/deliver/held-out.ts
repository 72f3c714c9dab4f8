import type { Logger } from '../kernel/log.ts';
import type { Backlog, Queue } from '../store/port.ts';

/** Dead letters requeued in a transaction, and transactions in a row, so that other users of the store get a turn. */
const STEP = 1_000;
const STEPS = 50;

interface HeldOutOptions {
  readonly store: Pick<Queue, 'requeue'>;
  readonly log: Logger;
  /** True if this process is in charge of a destination. */
  readonly leads: (destination: string) => boolean;
  readonly onQueued: (destinations: readonly string[]) => void;
}

/** Requeues letters that full queues held out, as those drain. */
export class HeldOutLetters {
  private readonly options: HeldOutOptions;
  /** Destinations with such letters that this process is in charge of. */
  private readonly full = new Set<string>();
  private readonly busy = new Set<string>();

  constructor(options: HeldOutOptions) {
    this.options = options;
  }

  /** Checks all destinations, every few seconds. */
  async look(backlogs: readonly Backlog[]): Promise<void> {
    for (const backlog of backlogs) {
      const { destination, heldOut } = backlog;
      if (!this.options.leads(destination)) this.full.delete(destination);
      else {
        this.note(backlog);
        if (heldOut > 0) await this.requeue(destination);
      }
    }
  }

  /** Requeues at once when a queue is empty and letters wait for it. */
  drained(destination: string): void {
    if (!this.full.has(destination)) return;
    this.requeue(destination).catch((error) =>
      this.options.log.warn(
        { stage: 'accept', destination, err: error },
        'Could not requeue held-out messages; retrying',
      ),
    );
  }

  private note({ destination, pending, heldOut }: Backlog): void {
    const { log } = this.options;
    const fields = { stage: 'accept', destination, pending, heldOut };
    if (heldOut > 0 && !this.full.has(destination)) {
      this.full.add(destination);
      log.warn(fields, 'The queue is full: new messages become dead letters and are requeued as it drains');
    } else if (heldOut === 0 && this.full.delete(destination)) {
      log.info(fields, 'The queue has drained: requeued all held-out messages');
    }
  }

  private async requeue(destination: string): Promise<void> {
    if (this.busy.has(destination)) return;
    this.busy.add(destination);
    try {
      for (let step = 0; step < STEPS; step += 1) {
        const queued = await this.options.store.requeue(destination, STEP);
        if (queued > 0) this.options.onQueued([destination]);
        if (queued < STEP) return;
      }
    } finally {
      this.busy.delete(destination);
    }
  }
}
