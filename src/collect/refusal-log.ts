import type { Clock } from '../kernel/clock.ts';
import type { ErrorCode } from '../kernel/errors.ts';

/** Milliseconds between two lines of the log that say that nothing can be taken now. */
const LOGGED_EVERY = 10_000;

/** Counts requests that can't be taken now, so that a line of the log speaks for many: they must not fill the disk. */
export class RefusalLog {
  private readonly unlogged = new Map<ErrorCode, number>();
  private readonly loggedAt = new Map<ErrorCode, number>();
  private readonly clock: Pick<Clock, 'monotonic'>;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.clock = clock;
  }

  /** How many a line would speak for, since the last one of this code; 0 as long as it is too early for one. */
  count(code: ErrorCode): number {
    const now = this.clock.monotonic();
    const count = (this.unlogged.get(code) ?? 0) + 1;
    const isTime = now - (this.loggedAt.get(code) ?? Number.NEGATIVE_INFINITY) > LOGGED_EVERY;
    this.unlogged.set(code, isTime ? 0 : count);
    if (isTime) this.loggedAt.set(code, now);
    return isTime ? count : 0;
  }
}
