import type { Clock } from '../kernel/clock.ts';
import type { ErrorCode } from '../kernel/errors.ts';

/** Milliseconds between two log lines about the same refusal. */
const LOGGED_EVERY = 10_000;

/** Counts refused requests, so that one log line covers many: they must not fill the disk. */
export class RefusalLog {
  private readonly unlogged = new Map<ErrorCode, number>();
  private readonly loggedAt = new Map<ErrorCode, number>();
  private readonly clock: Pick<Clock, 'monotonic'>;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.clock = clock;
  }

  /** @returns refusals since the last line about this code; 0 while it is too early for another line */
  count(code: ErrorCode): number {
    const now = this.clock.monotonic();
    const count = (this.unlogged.get(code) ?? 0) + 1;
    const isTime = now - (this.loggedAt.get(code) ?? Number.NEGATIVE_INFINITY) > LOGGED_EVERY;
    this.unlogged.set(code, isTime ? 0 : count);
    if (isTime) this.loggedAt.set(code, now);
    return isTime ? count : 0;
  }
}
