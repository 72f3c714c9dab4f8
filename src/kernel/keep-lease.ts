import type { Clock } from './clock.ts';
import { RollcallError } from './errors.ts';
import { LeaseTime, momentOf } from './lease-time.ts';

const TTL = 30_000;
const RENEW_EVERY = 10_000;

/** A store of leases; a fence names the lease that was taken. */
interface Leases<F> {
  takeLease(lease: string, ttl: number): Promise<F | null>;
  renewLease(fence: F, ttl: number): Promise<boolean>;
  releaseLease(fence: F): Promise<void>;
}

/** The right to do something that only one process may do at a time, renewed until it is released. */
export interface Lease<F> {
  readonly fence: F;
  readonly since: number;
  /** Aborts with `fence_lost` once another process may hold the lease. */
  readonly signal: AbortSignal;
  /**
   * Verifies the lease at once, for work that no fence guards: timers stand still while the machine is suspended.
   *
   * @throws RollcallError `fence_lost`
   */
  check(): Promise<void>;
  /** Like `check`, but always asks the store. */
  confirm(): Promise<void>;
  release(): Promise<void>;
}

/** Takes a lease that only one process can hold, and keeps it; null while another process holds it. */
export async function keepLease<F>(leases: Leases<F>, clock: Clock, name: string): Promise<Lease<F> | null> {
  const since = clock.now();
  const time = new LeaseTime(clock);
  const taken = momentOf(clock);
  const fence = await leases.takeLease(name, TTL);
  if (fence === null) return null;
  time.extend(taken, TTL);
  const lost = new AbortController();
  let cancel = clock.roughly(RENEW_EVERY, renew);
  let renewing: Promise<void> | null = null;

  function renew(): void {
    renewing = ask().then(() => {
      if (!lost.signal.aborted) cancel = clock.roughly(RENEW_EVERY, renew);
    });
  }

  /** Resolves to the error that kept the store from answering, if any. */
  async function ask(): Promise<unknown> {
    const asked = momentOf(clock);
    const answer = await leases.renewLease(fence as F, TTL).catch((error: unknown) => ({ error }));
    if (lost.signal.aborted) return null;
    if (answer === true) time.extend(asked, TTL);
    else if (answer === false) {
      lost.abort(new RollcallError('fence_lost', `Another process has taken over ${name}; this one stops.`));
    } else {
      // A store that can't answer for a while is no loss yet: the lease runs until its time is over. In a full store nobody
      // can take it. Writes without a fence wait anyway.
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
  /** Milliseconds to wait at most; 0 means a single try. */
  readonly patience: number;
  readonly askEvery: number;
  readonly signal?: AbortSignal;
  readonly mayAsk?: () => boolean;
  /** Called once if the lease has to be waited for. */
  readonly onWait?: (() => void) | undefined;
}

/** Like `keepLease`, but waits while another process holds it; null if that takes too long. */
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
