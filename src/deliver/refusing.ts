import type { Clock } from '../clock.ts';
import type { Logger } from '../log.ts';
import { RETRY_WINDOW } from '../retry.ts';
import type { EndpointState, Store } from '../store/port.ts';
import type { EndpointStates } from './endpoint-states.ts';
import { isDenial, REFUSALS } from './refusals.ts';
import type { Turns } from './turns.ts';

interface RefusingOptions {
  readonly store: Pick<Store, 'attempts' | 'time'>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly states: EndpointStates;
  readonly turns: Turns;
  /** Called once, by one process of all, when an endpoint begins to refuse everything. */
  readonly onRefusing: (state: EndpointState) => void;
  /** Called when such an endpoint takes messages again: what it refused may be sent again. */
  readonly onTaken: (state: EndpointState) => void;
}

/** Endpoints that refuse everything: finds them, keeps what is known of them, and forgets it once all is sent again. */
export class RefusingEndpoints {
  private readonly options: RefusingOptions;

  constructor(options: RefusingOptions) {
    this.options = options;
  }

  /** Writes a changed state of an endpoint, whatever changed. */
  async changed(state: EndpointState): Promise<void> {
    const { states, onRefusing, onTaken } = this.options;
    const before = states.current.get(state.endpoint)?.refusal ?? null;
    const refusal = state.refusal ?? null;
    const isNew = refusal !== null && refusal.since !== null && (before?.since ?? null) === null;
    if (isNew) onRefusing(state);
    await states.mark(state);
    if (refusal !== null && refusal.takenAt !== null) onTaken(state);
    if (isNew) await this.correct(state);
  }

  /** Looks at the attempts of all processes together, where several share an endpoint. */
  async look(): Promise<void> {
    const { store, turns } = this.options;
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
  }

  /** All that an endpoint refused is queued again. The same goes for an endpoint whose place it took. */
  async forget({ destination }: EndpointState): Promise<void> {
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
