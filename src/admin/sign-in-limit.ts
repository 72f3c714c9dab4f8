import type { Clock } from '../kernel/clock.ts';
import { RollcallError } from '../kernel/errors.ts';

/** Wrong tokens that an address may send within `WITHIN` before it has to wait. */
const FAILURES = 10;
const WITHIN = 60_000;
/** Addresses remembered. The oldest are dropped first. */
const ADDRESSES = 10_000;

interface Failures {
  readonly since: number;
  count: number;
}

/** Slows down guesses of tokens. Right tokens do not count. */
export class SignInLimit {
  private readonly clock: Pick<Clock, 'monotonic'>;
  private readonly byAddress = new Map<string, Failures>();

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.clock = clock;
  }

  /** @throws RollcallError `rate_limited` */
  check(address: string): void {
    const failures = this.byAddress.get(address);
    if (!failures) return;
    if (this.clock.monotonic() - failures.since >= WITHIN) this.byAddress.delete(address);
    else if (failures.count >= FAILURES) {
      throw new RollcallError('rate_limited', 'Too many wrong tokens from this address: try again in a minute.');
    }
  }

  failed(address: string): void {
    const failures = this.byAddress.get(address);
    if (failures) {
      failures.count += 1;
      return;
    }
    const [oldest] = this.byAddress.keys();
    if (this.byAddress.size >= ADDRESSES && oldest !== undefined) this.byAddress.delete(oldest);
    this.byAddress.set(address, { since: this.clock.monotonic(), count: 1 });
  }
}
