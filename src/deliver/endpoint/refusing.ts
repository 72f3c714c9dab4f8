import type { Clock } from '../../kernel/clock.ts';
import type { Logger } from '../../kernel/log.ts';
import { RETRY_WINDOW } from '../../kernel/retry.ts';
import type { EndpointState, Store } from '../../store/port.ts';
import type { Loops } from '../loops.ts';
import type { Turns } from '../turns.ts';
import type { EndpointStates } from './endpoint-states.ts';
import { isDenial, REFUSALS } from './refusals.ts';

/** Letters requeued in one transaction, and the pause after each, in milliseconds: others need the store, too. */
const STEP = 500;
const REST = 20;

interface RefusingOptions {
  readonly store: Pick<Store, 'attempts' | 'time' | 'resend'>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly states: EndpointStates;
  readonly turns: Turns;
  readonly loops: Pick<Loops, 'sleep' | 'isStopping'>;
  /** True if this process is in charge of a destination. */
  readonly leads: (destination: string) => boolean;
  readonly onQueued: (destination: string) => void;
}

/**
 * Finds endpoints that refuse everything and keeps their state. Once they accept messages, requeues what they refused
 * and forgets it.
 */
export class RefusingEndpoints {
  private readonly options: RefusingOptions;
  /** Running requeues by destination. */
  private readonly sending = new Map<string, Promise<void>>();

  constructor(options: RefusingOptions) {
    this.options = options;
  }

  async changed(state: EndpointState): Promise<void> {
    const { states } = this.options;
    const before = states.current.get(state.endpoint)?.refusal ?? null;
    const refusal = state.refusal ?? null;
    const isNew = refusal !== null && refusal.since !== null && (before?.since ?? null) === null;
    await states.mark(state);
    this.sendAgain([state]);
    if (isNew) await this.correct(state);
  }

  /** Checks the attempts of all processes that share an endpoint, and starts pending requeues. */
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

  async stop(): Promise<void> {
    await Promise.all(this.sending.values());
  }

  /** Requeues for one endpoint per destination at a time. */
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
      // Each letter is visited once: one that is refused again keeps its id.
      for (let after: string | null = null; ; ) {
        if (loops.isStopping || !leads(destination)) return;
        after = await store.resend(destination, since, after, STEP);
        onQueued(destination);
        if (after === null) break;
        await loops.sleep(REST);
      }
      log.info({ stage: 'deliver', destination, endpoint }, 'Requeued everything the endpoint had refused');
      await this.forget(state);
    } catch (error) {
      log.warn({ err: error, destination, endpoint }, 'Could not requeue refused messages; retrying');
    }
  }

  /** Forgets a refusal once everything is requeued, also that of an endpoint it replaced. */
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

  /** Finds the endpoint's last success in the attempt log if this process has not seen it. */
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
      // Attempts use the wall clock, refusals store time.
      if (!last || !outlet.refusals.correct(store.time.now() - (now - last.at))) return;
      await states.mark(outlet.stateIn(destination));
    } catch (error) {
      log.warn({ err: error, endpoint }, 'Could not look up the last success of an endpoint');
    }
  }
}
