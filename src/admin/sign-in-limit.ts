import type { Clock } from '../kernel/clock.ts';
import { RollcallError } from '../kernel/errors.ts';
import { networkOf } from '../kernel/ip.ts';

/** Wrong tokens that a network may send within `WITHIN` before it has to wait as long. */
const FAILURES = 10;
const WITHIN = 60_000;
/** Networks that are remembered, of each kind. */
const NETWORKS = 10_000;

interface Failures {
  readonly since: number;
  readonly count: number;
}

/** Slows down guesses of tokens. Right tokens do not count. */
export class SignInLimit {
  private readonly clock: Pick<Clock, 'monotonic'>;
  private readonly failing = new Map<string, Failures>();
  /** Times at which networks were shut out, oldest first. Kept apart from the counts, which may be dropped to make room. */
  private readonly shut = new Map<string, number>();

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.clock = clock;
  }

  /** @throws RollcallError `rate_limited` */
  check(address: string): void {
    for (const [network, since] of this.shut) {
      if (this.clock.monotonic() - since < WITHIN) break;
      this.shut.delete(network);
    }
    if (this.shut.has(networkOf(address)) || this.shut.size >= NETWORKS)
      throw new RollcallError('rate_limited', 'Too many wrong tokens from this address: try again in a minute.');
  }

  failed(address: string): void {
    const network = networkOf(address);
    const now = this.clock.monotonic();
    const known = this.failing.get(network);
    const { since, count } = known && now - known.since < WITHIN ? known : { since: now, count: 0 };
    this.failing.delete(network);
    if (count + 1 >= FAILURES) {
      this.shut.set(network, now);
      return;
    }
    const [oldest] = this.failing.keys();
    if (this.failing.size >= NETWORKS && oldest !== undefined) this.failing.delete(oldest);
    this.failing.set(network, { since, count: count + 1 });
  }
}
