import type { Clock } from '../kernel/clock.ts';
import type { Logger } from '../kernel/log.ts';
import { RETRY_WINDOW } from '../kernel/retry.ts';
import type { Store } from '../store/port.ts';
import type { DestinationQueue } from './destination-queue.ts';

/** Rows changed in one transaction at most. */
const STEP = 1_000;

export interface RecordRetention {
  readonly runs: number;
  readonly regulations: number;
  readonly audit: number;
}

/** How long messages that were delivered are kept, in milliseconds, and in how many bytes. */
export interface MessageRetention {
  readonly keep: number;
  readonly maxSize: number;
}

interface HousekeepingOptions {
  readonly store: Pick<
    Store,
    | 'time'
    | 'trustsClocks'
    | 'rescue'
    | 'expire'
    | 'restNotices'
    | 'backlog'
    | 'prune'
    | 'pruneRecords'
    | 'pruneAudits'
    | 'pruneDelivered'
    | 'boundDelivered'
  >;
  /** Its time is the store's. */
  readonly clock: Clock;
  readonly attemptRetention: number;
  /** How long runs and deletion requests that are over are kept, in milliseconds; forever unless given. */
  readonly recordRetention?: RecordRetention | undefined;
  readonly messageRetention: MessageRetention;
  readonly log: Logger;
  readonly queues: ReadonlyMap<string, DestinationQueue>;
  /** Gives back what this process holds claimed of a destination and has not begun: only what waits in the store is ended. */
  readonly giveBack: (destination: string) => Promise<void>;
}

/** Ends what has no one to end it; resolves to the number of deliveries freed from processes that died. */
export async function housekeeping(options: HousekeepingOptions): Promise<number> {
  const { store, clock, attemptRetention, recordRetention, log, queues } = options;
  const freed = await store.rescue();
  if (freed > 0) log.warn({ stage: 'claim', freed }, 'Freed the claims of a process that is gone');
  for (const { destination, pending, heldOut } of await store.backlog()) {
    const queue = queues.get(destination);
    // Other destinations are another process's, or nobody's (orphans.ts).
    if (pending + heldOut === 0 || !queue) continue;
    const ended = await expire(options, destination, queue);
    if (ended > 0) log.warn({ stage: 'deliver', destination, ended }, 'Made dead letters');
  }
  const { keep, maxSize } = options.messageRetention;
  if (keep > 0) while ((await store.boundDelivered(maxSize, STEP)) > 0);
  // Runs and deletion requests are in its time, from which the store's may be far off.
  const wall = store.time.toWall(clock.now());
  if (!(await store.trustsClocks(wall))) return freed;
  await inSteps(() => store.prune(clock.now() - attemptRetention, STEP));
  await inSteps(() => store.pruneDelivered(clock.now() - keep, STEP));
  if (recordRetention) {
    const { runs, regulations, audit } = recordRetention;
    await inSteps(() => store.pruneRecords(wall - runs, wall - regulations, STEP));
    await inSteps(() => store.pruneAudits(wall - audit, STEP));
  }
  return freed;
}

/**
 * The four hours run on for deliveries that are held back; those never tried count from when the endpoints died. Nothing
 * ends before an endpoint has been asked: after a downtime, which may be a step of the clock, it may be back. Notices of
 * deletions wait for as long as the destination is disabled.
 */
async function expire(
  { store, clock, giveBack }: HousekeepingOptions,
  name: string,
  queue: DestinationQueue,
): Promise<number> {
  const heldSince = queue.heldBackSince;
  if (queue.enabled && (heldSince === null || !queue.hasProbed)) return 0;
  await giveBack(name);
  if (!queue.enabled) await inSteps(() => store.restNotices(name, STEP));
  const before = clock.now() - RETRY_WINDOW;
  const untriedToo = queue.enabled && heldSince !== null && heldSince <= before;
  return inSteps(() => store.expire(name, before, untriedToo, STEP));
}

async function inSteps(step: () => Promise<number>): Promise<number> {
  let total = 0;
  for (;;) {
    const changed = await step();
    total += changed;
    if (changed < STEP) return total;
  }
}
