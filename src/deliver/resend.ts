import type { Clock } from '../clock.ts';
import type { Logger } from '../log.ts';
import { RETRY_WINDOW } from '../retry.ts';
import type { EndpointState, Store } from '../store/port.ts';

/** Letters queued again in one transaction; others want the store, too, so that there is a rest after each, in milliseconds. */
const STEP = 500;
const REST = 20;

interface ResendOptions {
  readonly store: Pick<Store, 'resend'>;
  /** Its time is the store's. */
  readonly clock: Clock;
  readonly log: Logger;
  /** Whether this process is the one that sees to a destination. */
  readonly leads: (destination: string) => boolean;
  /** Called with a destination that has new work. */
  readonly onQueued: (destination: string) => void;
  /** Called with an endpoint whose letters are all queued again. */
  readonly onDone: (state: EndpointState) => Promise<void>;
  readonly sleep: (ms: number) => Promise<void>;
  readonly isStopping: () => boolean;
}

/** Sends again what endpoints refused while they refused everything, once they take messages. */
export class Resending {
  private readonly options: ResendOptions;
  private readonly busy = new Map<string, Promise<void>>();

  constructor(options: ResendOptions) {
    this.options = options;
  }

  /** Takes up what is to be done, here or after a restart; a destination at a time. */
  look(states: Iterable<EndpointState>): void {
    for (const state of states) {
      const { destination, refusal } = state;
      if (!refusal || refusal.takenAt === null) continue;
      if (this.busy.has(destination) || !this.options.leads(destination)) continue;
      this.busy.set(
        destination,
        this.resend(state, refusal.from).finally(() => this.busy.delete(destination)),
      );
    }
  }

  /** Resolves once nothing is under way. */
  async stop(): Promise<void> {
    await Promise.all(this.busy.values());
  }

  private async resend(state: EndpointState, from: number): Promise<void> {
    const { store, clock, log, onQueued, onDone, sleep, leads, isStopping } = this.options;
    const { endpoint, destination } = state;
    const since = Math.max(from, clock.now() - RETRY_WINDOW);
    try {
      // Each letter is looked at once: one that is refused again keeps its id.
      for (let after: string | null = null; ; ) {
        if (isStopping() || !leads(destination)) return;
        after = await store.resend(destination, since, after, STEP);
        onQueued(destination);
        if (after === null) break;
        await sleep(REST);
      }
      log.info({ stage: 'deliver', destination, endpoint }, 'All that the endpoint refused is queued again');
      await onDone(state);
    } catch (error) {
      log.warn({ err: error, destination, endpoint }, 'Refused messages could not be queued again; trying again');
    }
  }
}
