import type { Clock } from '../src/clock.ts';
import { RollcallError } from '../src/errors.ts';
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
  release(): Promise<void>;
}

/** Takes the lease of an audience over all processes; null while another holds it. */
export async function takeLease(
  store: Pick<Store, 'takeLease' | 'renewLease' | 'releaseLease'>,
  clock: Clock,
  key: string,
): Promise<Lease | null> {
  const since = clock.now();
  let validUntil = clock.monotonic() + TTL;
  const fence = await store.takeLease(`sync:${key}`, TTL);
  if (!fence) return null;
  const lost = new AbortController();
  let cancel = clock.after(RENEW_EVERY, renew);

  async function renew(): Promise<void> {
    const asked = clock.monotonic();
    const answer = await store.renewLease(fence as Fence, TTL).catch(() => 'unknown' as const);
    if (lost.signal.aborted) return;
    if (answer === true) validUntil = asked + TTL;
    // A store that can't answer for a while is no loss yet: the lease runs until its time is over.
    else if (answer === false || clock.monotonic() >= validUntil) {
      lost.abort(new RollcallError('fence_lost', `Another process has taken over the sync of ${key}.`));
      return;
    }
    cancel = clock.after(RENEW_EVERY, renew);
  }

  return {
    fence,
    since,
    signal: lost.signal,
    async release() {
      cancel();
      lost.abort(new RollcallError('fence_lost', `The lease of ${key} was given back.`));
      await store.releaseLease(fence).catch(() => {});
    },
  };
}
