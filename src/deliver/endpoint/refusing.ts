import type { Clock } from '../../kernel/clock.ts';
import type { Logger } from '../../kernel/log.ts';
import { RETRY_WINDOW } from '../../kernel/retry.ts';
import type { EndpointState, Store } from '../../store/port.ts';
import type { Loops } from '../loops.ts';
import type { Turns } from '../turns.ts';
import type { EndpointStates } from './endpoint-states.ts';
import { isDenial, REFUSALS } from './refusals.ts';

/** Letters queued again in one transaction; others want the store, too, so that there is a rest after each, in milliseconds. */
const STEP = 500;
const REST = 20;

interface RefusingOptions {
  readonly store: Pick<Store, 'attempts' | 'time' | 'resend'>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly states: EndpointStates;
  readonly turns: Turns;
  readonly loops: Pick<Loops, 'sleep' | 'isStopping'>;
  /** Whether this process is the one that sees to a destination. */
  readonly leads: (destination: string) => boolean;
  /** Called with a destination that has new work. */
  readonly onQueued: (destination: string) => void;
}

/**
 * Endpoints that refuse everything: finds them, and keeps what is known of them. Once they take messages, sends again what
 * they refused, and forgets it.
 */
export class RefusingEndpoints {
  private readonly options: RefusingOptions;
  /** By destination, what is being sent again. */
  private readonly sending = new Map<string, Promise<void>>();

  constructor(options: RefusingOptions) {
    this.options = options;
  }

  /** Writes a changed state of an endpoint, whatever changed. */
  async changed(state: EndpointState): Promise<void> {
    const { states } = this.options;
    const before = states.current.get(state.endpoint)?.refusal ?? null;
    const refusal = state.refusal ?? null;
    const isNew = refusal !== null && refusal.since !== null && (before?.since ?? null) === null;
    await states.mark(state);
    this.sendAgain([state]);
    if (isNew) await this.correct(state);
  }

  /** Looks at the attempts of all processes together, where several share an endpoint, and takes up what is to be sent again. */
  async look(): Promise<void> {
    const { store, states, turns } = this.options;
    for (const queue of turns.queues) {
      for (const outlet of queue.outlets.suspected) {
        const last = await store.attempts({ destination: queue.name, endpoint: outlet.id, limit: REFUSALS });
        const isAll = last.length === REFUSALS && last.every(isDenial);
        if (!isAll || new Set(last.map(({ delivery }) => delivery)).size < 2 || !outlet.window.open) continue;
        outlet.refuse();
        outlet.wakeAll();
        await this.changed(outlet.stateIn(queue.name));
      }
    }
    this.sendAgain(states.current.values());
  }

  /** Resolves once nothing is under way. */
  async stop(): Promise<void> {
    await Promise.all(this.sending.values());
  }

  /** A destination at a time. */
  private sendAgain(states: Iterable<EndpointState>): void {
    for (const state of states) {
      const { destination, refusal } = state;
      if (!refusal || refusal.takenAt === null) continue;
      if (this.sending.has(destination) || !this.options.leads(destination)) continue;
      this.sending.set(
        destination,
        this.resend(state, refusal.from).finally(() => this.sending.delete(destination)),
      );
    }
  }

  private async resend(state: EndpointState, from: number): Promise<void> {
    const { store, log, loops, leads, onQueued } = this.options;
    const { endpoint, destination } = state;
    const since = Math.max(from, store.time.now() - RETRY_WINDOW);
    try {
      // Each letter is looked at once: one that is refused again keeps its id.
      for (let after: string | null = null; ; ) {
        if (loops.isStopping || !leads(destination)) return;
        after = await store.resend(destination, since, after, STEP);
        onQueued(destination);
        if (after === null) break;
        await loops.sleep(REST);
      }
      log.info({ stage: 'deliver', destination, endpoint }, 'All that the endpoint refused is queued again');
      await this.forget(state);
    } catch (error) {
      log.warn({ err: error, destination, endpoint }, 'Refused messages could not be queued again; trying again');
    }
  }

  /** All that an endpoint refused is queued again. The same goes for an endpoint whose place it took. */
  private async forget({ destination }: EndpointState): Promise<void> {
    const { states, turns } = this.options;
    const outlets = turns.queue(destination)?.outlets;
    for (const state of [...states.current.values()]) {
      if (state.destination !== destination || !state.refusal) continue;
      const outlet = outlets?.find(state.endpoint);
      if (outlet && (outlet.refusals.state?.takenAt ?? null) === null) continue;
      if (outlet) outlet.refusals.state = null;
      await states.mark({ ...state, refusal: null });
    }
  }

  /** A process that has not seen the endpoint's last success finds it in the attempt log. */
  private async correct({ destination, endpoint }: EndpointState): Promise<void> {
    const { store, clock, log, states, turns } = this.options;
    const outlet = turns.queue(destination)?.outlets.find(endpoint);
    if (!outlet || (outlet.refusals.takenAt !== null && outlet.window.sharers === 1)) return;
    try {
      const now = clock.now();
      const [last] = await store.attempts({
        destination,
        endpoint,
        outcome: 'success',
        since: now - RETRY_WINDOW,
        limit: 1,
      });
      // Attempts are listed by the wall clock, refusals kept in the store's time.
      if (!last || !outlet.refusals.correct(store.time.now() - (now - last.at))) return;
      await states.mark(outlet.stateIn(destination));
    } catch (error) {
      log.warn({ err: error, endpoint }, 'The last success of an endpoint could not be looked up');
    }
  }
}
