import type { Destination } from '../destination.ts';
import type { Clock } from '../kernel/clock.ts';
import type { RunProgress, Store } from '../store/port.ts';
import { endpointStatuses } from './endpoints.ts';

const POLL_INTERVAL = 100;
/** Polls without a change after which the rest is taken to wait for an endpoint that doesn't answer. */
const PATIENCE = 50;

interface AwaitOptions {
  readonly store: Pick<Store, 'time' | 'runProgress' | 'endpoints' | 'backlog'>;
  readonly destinations: () => readonly Destination[];
  readonly clock: Pick<Clock, 'sleep'>;
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: RunProgress) => void;
}

/**
 * Wait until every delivery of these runs is delivered, dead or waiting (for its retry, or for an endpoint that is dead or
 * paused), or `signal` aborts. Resolves to their progress.
 */
export async function awaitDeliveries(
  runs: readonly string[],
  { store, destinations, clock, signal, onProgress = () => {} }: AwaitOptions,
): Promise<RunProgress> {
  let last = sum([]);
  for (let unchanged = 0; !signal.aborted; unchanged += 1) {
    const now = sum(await Promise.all(runs.map((run) => store.runProgress(run))));
    onProgress(now);
    if (now.untried === 0) return now;
    if (now.untried !== last.untried) unchanged = 0;
    if (unchanged >= PATIENCE && (await endpointStatuses(store, destinations())).some(isBlocked)) return now;
    last = now;
    // Rejects only on abort, which the loop checks.
    await clock.sleep(POLL_INTERVAL, signal).catch(() => {});
  }
  return last;
}

const isBlocked = ({ state }: { readonly state: string }): boolean => state !== 'open';

function sum(parts: readonly RunProgress[]): RunProgress {
  const total = { deliveries: 0, untried: 0, delivered: 0, dead: 0, superseded: 0 };
  for (const part of parts) {
    total.deliveries += part.deliveries;
    total.untried += part.untried;
    total.delivered += part.delivered;
    total.dead += part.dead;
    total.superseded += part.superseded;
  }
  return total;
}
