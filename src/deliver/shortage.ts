import type { Clock } from '../kernel/clock.ts';
import type { Logger } from '../kernel/log.ts';
import type { DestinationQueue } from './destination-queue.ts';

/** Interval in milliseconds of shrinking all windows: what is in flight must end first. */
const SHRINK_EVERY = 1_000;
const LOG_EVERY = 60_000;

/** Reacts to attempts for which this machine lacked a file descriptor, a port, a buffer or memory. */
export class Shortage {
  private readonly clock: Clock;
  private readonly log: Logger;
  private shrunkAt = Number.NEGATIVE_INFINITY;
  private loggedAt = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, log: Logger) {
    this.clock = clock;
    this.log = log;
  }

  /** Makes all windows smaller: endpoints with open connections would leave none to the others. */
  note(error: string | null, queues: readonly Pick<DestinationQueue, 'outlets'>[]): void {
    const now = this.clock.monotonic();
    if (now - this.loggedAt >= LOG_EVERY) {
      this.loggedAt = now;
      this.log.warn(
        { stage: 'deliver', error },
        'This machine has too few file descriptors, ports or memory; delivering less at once. `rollcall doctor` shows how many descriptors are needed',
      );
    }
    // Ports are counted per address, so those of other endpoints are not used up.
    if (error === 'EADDRNOTAVAIL' || now - this.shrunkAt < SHRINK_EVERY) return;
    this.shrunkAt = now;
    for (const { outlets } of queues) for (const { window } of outlets.list) window.decrease();
  }
}
