import type { Clock } from '../kernel/clock.ts';
import type { Logger } from '../kernel/log.ts';
import { RETRY_WINDOW } from '../kernel/retry.ts';
import type { Store } from '../store/port.ts';
import type { DestinationQueue } from './destination-queue.ts';

/** Limit of rows changed in one transaction. */
const STEP = 1_000;

export interface RecordRetention {
  readonly runs: number;
  readonly regulations: number;
  readonly audit: number;
}

/** Retention of delivered messages in milliseconds, and their size limit in bytes. */
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
  /** Reads store time. */
  readonly clock: Clock;
  readonly attemptRetention: number;
  /** Retention of finished runs and deletion requests, in milliseconds; forever unless given. */
  readonly recordRetention?: RecordRetention | undefined;
  readonly messageRetention: MessageRetention;
  readonly log: Logger;
  readonly queues: ReadonlyMap<string, DestinationQueue>;
  /** Releases claims of a destination that this process has not begun: only deliveries in the store are ended. */
  readonly giveBack: (destination: string) => Promise<void>;
}

/** Ends what nobody else ends; resolves to the number of deliveries freed from dead processes. */
export async function housekeeping(options: HousekeepingOptions): Promise<number> {
  const { store, log, queues } = options;
  const freed = await store.rescue();
  if (freed > 0) log.warn({ stage: 'claim', freed }, 'Lease of another process expired; requeued its deliveries');
  for (const { destination, pending, heldOut } of await store.backlog()) {
    const queue = queues.get(destination);
    // Other destinations belong to other processes, or to nobody (orphans.ts).
    if (pending + heldOut === 0 || !queue) continue;
    const ended = await expire(options, destination, queue);
    if (ended > 0) log.warn({ stage: 'deliver', destination, ended }, 'Deliveries expired and became dead letters');
  }
  const { keep, maxSize } = options.messageRetention;
  if (keep > 0) while ((await store.boundDelivered(maxSize, STEP)) > 0);
  return freed;
}

/** Drops what was kept for its time; resolves to the number of rows. */
export async function prune({
  store,
  clock,
  attemptRetention,
  recordRetention,
  messageRetention,
}: HousekeepingOptions): Promise<number> {
  // Runs and deletion requests use the wall clock, which may differ greatly from store time.
  const wall = store.time.toWall(clock.now());
  if (!(await store.trustsClocks(wall))) return 0;
  let pruned = await inSteps(() => store.prune(clock.now() - attemptRetention, STEP));
  pruned += await inSteps(() => store.pruneDelivered(clock.now() - messageRetention.keep, STEP));
  if (recordRetention) {
    const { runs, regulations, audit } = recordRetention;
    pruned += await inSteps(() => store.pruneRecords(wall - runs, wall - regulations, STEP));
    pruned += await inSteps(() => store.pruneAudits(wall - audit, STEP));
  }
  return pruned;
}

/**
 * The four hours continue for deliveries that are held back; for untried ones they count from when the endpoints died.
 * Nothing ends before an endpoint has been tried: after a downtime, which may be a clock step, it may be up again.
 * Deletion notices wait as long as the destination is disabled or not trusted.
 */
async function expire(
  { store, clock, giveBack }: HousekeepingOptions,
  name: string,
  queue: DestinationQueue,
): Promise<number> {
  const heldSince = queue.heldBackSince;
  if (queue.enabled && (heldSince === null || !queue.hasProbed)) return 0;
  await giveBack(name);
  const sparesNotices = !queue.enabled || queue.outlets.mayBeUntrusted;
  if (sparesNotices) await inSteps(() => store.restNotices(name, STEP));
  const before = clock.now() - RETRY_WINDOW;
  const untriedToo = queue.enabled && heldSince !== null && heldSince <= before;
  return inSteps(() => store.expire(name, before, untriedToo, STEP, sparesNotices));
}

async function inSteps(step: () => Promise<number>): Promise<number> {
  let total = 0;
  for (;;) {
    const changed = await step();
    total += changed;
    if (changed < STEP) return total;
  }
}
