import { systemClock } from '../kernel/clock.ts';
import type { Records } from '../store/port.ts';
import { ALERT_SOURCE } from '../store/port.ts';

const POLL_INTERVAL = 100;
/** Polls before undelivered alerts are left to the next start. */
const PATIENCE = 50;

export async function awaitRunAlerts(store: Pick<Records, 'backlog'>, signal: AbortSignal): Promise<void> {
  for (let polls = 0; polls < PATIENCE && !signal.aborted; polls += 1) {
    const backlogs = await store.backlog();
    if (!backlogs.some(({ destination, pending }) => isNotified(destination) && pending > 0)) return;
    await systemClock.sleep(POLL_INTERVAL, signal).catch(() => {});
  }
}

const isNotified = (destination: string) => destination.startsWith(`${ALERT_SOURCE}:`);
