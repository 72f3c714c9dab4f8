import type { Clock } from '../src/clock.ts';
import { RollcallError } from '../src/errors.ts';
import { LeaseTime, momentOf } from '../src/lease-time.ts';
import type { Fence, Store } from '../src/store/port.ts';

const TTL = 30_000;
const RENEW_EVERY = 10_000;

/** The right to sync one audience, renewed until it is released. */
export interface Lease {
  readonly fence: Fence;
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
  release(): Promise<void>;
}

/** Takes the lease of an audience over all processes; null while another holds it. */
export async function takeLease(
  store: Pick<Store, 'takeLease' | 'renewLease' | 'releaseLease'>,
  clock: Clock,
  key: string,
): Promise<Lease | null> {
  const since = clock.now();
  const time = new LeaseTime(clock);
  const taken = momentOf(clock);
  const fence = await store.takeLease(`sync:${key}`, TTL);
  if (!fence) return null;
  time.extend(taken, TTL);
  const lost = new AbortController();
  let cancel = clock.after(RENEW_EVERY, renew);

  async function renew(): Promise<void> {
    await ask();
    if (!lost.signal.aborted) cancel = clock.after(RENEW_EVERY, renew);
  }

  async function ask(): Promise<void> {
    const asked = momentOf(clock);
    const answer = await store.renewLease(fence as Fence, TTL).catch(() => 'unknown' as const);
    if (lost.signal.aborted) return;
    if (answer === true) time.extend(asked, TTL);
    // A store that can't answer for a while is no loss yet: the lease runs until its time is over.
    else if (answer === false || time.left <= 0) {
      lost.abort(new RollcallError('fence_lost', `Another process has taken over the sync of ${key}.`));
    }
  }

  return {
    fence,
    since,
    signal: lost.signal,
    async check() {
      if (time.left <= 0) await ask();
      lost.signal.throwIfAborted();
    },
    async release() {
      cancel();
      lost.abort(new RollcallError('fence_lost', `The lease of ${key} was given back.`));
      await store.releaseLease(fence).catch(() => {});
    },
  };
}
