import { setTimeout } from 'node:timers/promises';
import { type EndpointStatus, endpointStatuses } from '../admin/endpoints.ts';
import { ALERT_SOURCE } from '../alerts/notice.ts';
import type { Destination } from '../destination.ts';
import { NOTIFY_DESTINATION } from '../run-alerts.ts';
import type { Run, RunProgress, Store } from '../store/port.ts';
import type { ProgressView } from './progress.ts';

const POLL_INTERVAL = 100;
/** Polls without any change after which what is left is taken to wait behind an endpoint that doesn't answer. */
const PATIENCE = 50;

interface AwaitOptions {
  readonly store: Pick<Store, 'time' | 'runProgress' | 'endpoints' | 'backlog'>;
  readonly destinations: readonly Destination[];
  readonly progress: ProgressView;
  readonly signal: AbortSignal;
}

/**
 * Waits until every delivery of these runs is delivered, dead or waiting (for its retry, or behind an endpoint that is
 * dead or paused); resolves to how far they are, or to null once `signal` aborts.
 */
export async function awaitDeliveries(runs: readonly Run[], options: AwaitOptions): Promise<RunProgress | null> {
  const { store, destinations, progress, signal } = options;
  let last: RunProgress | null = null;
  for (let unchanged = 0; !signal.aborted; unchanged += 1) {
    const now = sum(await Promise.all(runs.map(({ id }) => store.runProgress(id))));
    progress.show('tried', now.deliveries - now.untried, now.deliveries);
    if (now.untried === 0) return now;
    if (now.untried !== last?.untried) unchanged = 0;
    if (unchanged >= PATIENCE && (await endpointStatuses(store, destinations)).some(isBlocked)) return now;
    last = now;
    // Rejects only when it is aborted, which the next round sees.
    await setTimeout(POLL_INTERVAL, undefined, { signal }).catch(() => {});
  }
  return null;
}

/** Waits until alerts of held and failed runs are delivered; where they can't be, not for long. */
export async function awaitRunAlerts(store: Pick<Store, 'backlog'>, signal: AbortSignal): Promise<void> {
  for (let polls = 0; polls < PATIENCE && !signal.aborted; polls += 1) {
    const backlogs = await store.backlog();
    if (!backlogs.some(({ destination, pending }) => isNotified(destination) && pending > 0)) return;
    await setTimeout(POLL_INTERVAL, undefined, { signal }).catch(() => {});
  }
}

const isNotified = (destination: string) =>
  destination === NOTIFY_DESTINATION || destination.startsWith(`${ALERT_SOURCE}:`);

function isBlocked({ state }: EndpointStatus): boolean {
  return state !== 'open';
}

function sum(parts: readonly RunProgress[]): RunProgress {
  const none: RunProgress = { deliveries: 0, untried: 0, delivered: 0, dead: 0, superseded: 0 };
  return parts.reduce(
    (total, part) => ({
      deliveries: total.deliveries + part.deliveries,
      untried: total.untried + part.untried,
      delivered: total.delivered + part.delivered,
      dead: total.dead + part.dead,
      superseded: total.superseded + part.superseded,
    }),
    none,
  );
}
