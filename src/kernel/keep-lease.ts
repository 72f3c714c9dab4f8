import type { Clock } from './clock.ts';
import { RollcallError } from './errors.ts';
import { LeaseTime, momentOf } from './lease-time.ts';

const TTL = 30_000;
const RENEW_EVERY = 10_000;

/** Where leases are taken; a fence names the one that was given. */
interface Leases<F> {
  takeLease(lease: string, ttl: number): Promise<F | null>;
  renewLease(fence: F, ttl: number): Promise<boolean>;
  releaseLease(fence: F): Promise<void>;
}

/** The right to do something that only one process may do at a time, renewed until it is released. */
export interface Lease<F> {
  readonly fence: F;
  /** When it was taken. */
  readonly since: number;
  /** Aborts with `fence_lost` once another process may hold the lease. */
  readonly signal: AbortSignal;
  /**
   * Makes sure of it at once, for what no fence guards: timers stand still while the machine is suspended.
   *
   * @throws RollcallError `fence_lost`
   */
  check(): Promise<void>;
  /** As `check`, and asks in any case. */
  confirm(): Promise<void>;
  release(): Promise<void>;
}

/** Takes a lease over all processes and keeps it; null while another holds it. */
export async function keepLease<F>(leases: Leases<F>, clock: Clock, name: string): Promise<Lease<F> | null> {
  const since = clock.now();
  const time = new LeaseTime(clock);
  const taken = momentOf(clock);
  const fence = await leases.takeLease(name, TTL);
  if (fence === null) return null;
  time.extend(taken, TTL);
  const lost = new AbortController();
  let cancel = clock.after(RENEW_EVERY, renew);
  let renewing: Promise<void> | null = null;

  function renew(): void {
    renewing = ask().then(() => {
      if (!lost.signal.aborted) cancel = clock.after(RENEW_EVERY, renew);
    });
  }

  /** Resolves to what kept the store from answering. */
  async function ask(): Promise<unknown> {
    const asked = momentOf(clock);
    const answer = await leases.renewLease(fence as F, TTL).catch((error: unknown) => ({ error }));
    if (lost.signal.aborted) return null;
    if (answer === true) time.extend(asked, TTL);
    else if (answer === false) {
      lost.abort(new RollcallError('fence_lost', `Another process has taken over ${name}; this one stops.`));
    } else {
      // A store that can't answer for a while is no loss yet: the lease runs until its time is over. In one that is full nobody
      // can take it; what is written without a fence waits all the same.
      if (time.left <= 0 && !isFull(answer.error)) {
        lost.abort(new RollcallError('fence_lost', `${name} could not be kept: the store does not answer.`));
      }
      return answer.error;
    }
    return null;
  }

  async function confirm(): Promise<void> {
    const error = await ask();
    lost.signal.throwIfAborted();
    if (error !== null && time.left <= 0) throw error;
  }

  return {
    fence,
    since,
    signal: lost.signal,
    confirm,
    async check() {
      if (time.left <= 0) await confirm();
      lost.signal.throwIfAborted();
    },
    async release() {
      cancel();
      lost.abort(new RollcallError('fence_lost', `The lease ${name} was given back.`));
      await renewing;
      await leases.releaseLease(fence).catch(() => {});
    },
  };
}

interface WaitingForLease {
  /** Milliseconds to wait at most; with 0 it is tried once. */
  readonly patience: number;
  readonly askEvery: number;
  readonly signal?: AbortSignal;
  /** Whether this one may ask now. */
  readonly mayAsk?: () => boolean;
  /** Called once if it has to be waited for. */
  readonly onWait?: (() => void) | undefined;
}

/** As `keepLease`, and waits while another holds it; null where that takes too long. */
export async function waitForLease<F>(
  leases: Leases<F>,
  clock: Clock,
  name: string,
  { patience, askEvery, signal, mayAsk = () => true, onWait = () => {} }: WaitingForLease,
): Promise<Lease<F> | null> {
  const until = clock.monotonic() + patience;
  for (let tries = 1; ; tries += 1) {
    signal?.throwIfAborted();
    const lease = mayAsk() ? await keepLease(leases, clock, name) : null;
    if (lease) return lease;
    if (clock.monotonic() >= until) return null;
    if (tries === 1) onWait();
    await clock.sleep(askEvery, signal);
  }
}

const isFull = (error: unknown): boolean => error instanceof RollcallError && error.code === 'store_full';
