import type { Clock } from '../../kernel/clock.ts';
import type { Logger } from '../../kernel/log.ts';
import { backoff } from '../../kernel/retry.ts';
import { type EndpointState, type Polled, type Records, whyClosed } from '../../store/port.ts';
import type { Loops } from '../loops.ts';

const RETRY_BASE = 50;
const RETRY_CAP = 5_000;

interface EndpointStatesOptions {
  readonly store: Pick<Records, 'endpoints' | 'markEndpoint'>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly loops: Pick<Loops, 'sleep' | 'isStopping'>;
}

/** States of closed endpoints, kept in sync with the store. */
export class EndpointStates {
  current: ReadonlyMap<string, EndpointState> = new Map();
  private readonly options: EndpointStatesOptions;
  /** Changes being written to the store, and changes begun so far. */
  private marking = 0;
  private marked = 0;

  constructor(options: EndpointStatesOptions) {
    this.options = options;
  }

  async load(): Promise<void> {
    const states = await this.options.store.endpoints();
    this.current = new Map(states.map((state) => [state.endpoint, state]));
  }

  /**
   * Takes over what other processes found and people resumed.
   *
   * @param polled - begun in this turn of the event loop
   * @param apply - called with each endpoint that is or was in a special state
   */
  async refresh(polled: Promise<Pick<Polled, 'endpoints'>>, apply: (state: EndpointState) => void): Promise<void> {
    if (this.marking > 0) return;
    const { marked } = this;
    const { endpoints: states } = await polled;
    if (this.marked > marked) return;
    const current = new Map(states.map((state) => [state.endpoint, state]));
    for (const { endpoint, destination } of [...this.current.values(), ...states]) {
      apply(current.get(endpoint) ?? { endpoint, destination, pausedAt: null, deadSince: null });
    }
    this.current = current;
  }

  /** Writes a change, retrying until the store accepts it or a newer one replaces it. */
  async mark(state: EndpointState): Promise<void> {
    const { store, clock, log, loops } = this.options;
    const { endpoint, destination } = state;
    const before = this.current.get(endpoint);
    this.current = new Map(this.current).set(endpoint, state);
    if (before === undefined || news(before) !== news(state))
      log.warn({ stage: 'deliver', destination, endpoint, state: whyClosed(state) }, news(state));
    this.marking += 1;
    this.marked += 1;
    for (let failures = 0; this.current.get(endpoint) === state; ) {
      try {
        await store.markEndpoint(state);
        break;
      } catch (error) {
        failures += 1;
        log.warn({ err: error, endpoint }, 'Could not store the state of an endpoint; retrying');
        if (loops.isStopping) break;
        await loops.sleep(backoff(failures, clock.random(), RETRY_BASE, RETRY_CAP));
      }
    }
    this.marking -= 1;
  }
}

function news({ pausedAt, deadSince, refusal }: EndpointState): string {
  if (pausedAt !== null) return 'Endpoint paused after a 410; nothing is sent until somebody resumes it';
  if ((refusal?.since ?? null) !== null) return 'Endpoint refuses everything; sending only probes';
  return deadSince === null ? 'Endpoint recovered' : 'Endpoint is dead; sending only probes';
}
