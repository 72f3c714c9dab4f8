import type { AudienceStatus } from '../../../jobs/index.ts';
import type { Destination } from '../../destination.ts';
import type { Clock } from '../../kernel/clock.ts';
import { type Backlog, isClosed, type Store, whyClosed } from '../../store/port.ts';
import type { Instruments } from './instruments.ts';

export interface StoreParts {
  readonly store: Pick<Store, 'backlog' | 'orphans' | 'endpoints' | 'oldestUntried' | 'lastSuccesses' | 'ping'>;
  /** The stored state of live audiences, by source. */
  readonly live: {
    allStates(): Promise<readonly { readonly source: string }[]>;
    currentState(source: string): Promise<{ readonly ids: number; readonly due: number } | null>;
  };
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly destinations: () => readonly Destination[];
  readonly audiences: () => Promise<readonly AudienceStatus[]>;
}

/** Gauges that are read from the store with each scrape: counters and ends of indexes, never counts of rows. */
export function storeMetrics(make: Instruments, parts: StoreParts): void {
  queueGauges(make, parts);
  endpointGauges(make, parts);
  audienceGauges(make, parts);
  liveGauges(make, parts);
  healthGauges(make, parts);
}

function queueGauges(make: Instruments, { store, clock, destinations }: StoreParts): void {
  // All gauges of one scrape share one read of the store.
  const backlog = shared(() => store.backlog());
  const perDestination = (name: string, help: string, count: (row: Backlog) => number) =>
    make.gauge(name, help, ['destination'], async (gauge) => {
      const rows = await backlog();
      // The store has no row before the first delivery, but an increase to the first dead letter needs a series at 0.
      for (const { name: destination } of destinations()) gauge.set({ destination }, 0);
      for (const row of rows) gauge.set({ destination: row.destination }, count(row));
    });
  perDestination('backlog', 'Deliveries neither delivered nor dead.', ({ pending }) => pending);
  perDestination('dead_letters', 'Dead letters kept, those held out included.', ({ dead }) => dead);
  perDestination(
    'held_out',
    'Dead letters queue_full, which are queued again automatically.',
    ({ heldOut }) => heldOut,
  );
  make.gauge(
    'oldest_untried_seconds',
    'Age of what waits longest for its first try.',
    ['destination'],
    async (gauge) => {
      for (const { destination, since } of await store.oldestUntried())
        gauge.set({ destination }, Math.max(0, clock.now() - since) / 1_000);
    },
  );
  make.gauge(
    'orphaned_deliveries',
    'Deliveries of destinations that no process that runs knows.',
    ['destination'],
    async (gauge) => {
      for (const { destination, pending } of await store.orphans()) gauge.set({ destination }, pending);
    },
  );
}

function endpointGauges(make: Instruments, { store, destinations }: StoreParts): void {
  const endpoints = shared(() => store.endpoints());
  make.gauge(
    'closed_endpoints',
    'Endpoints that take nothing but probes, by why.',
    ['destination', 'state'],
    async (gauge) => {
      for (const state of await endpoints()) {
        if (isClosed(state)) gauge.inc({ destination: state.destination, state: whyClosed(state) });
      }
    },
  );
  make.gauge(
    'endpoint_state',
    'State of each endpoint: 1 for the one that it is in, of open, dead, refusing, paused and disabled.',
    ['destination', 'endpoint', 'state'],
    async (gauge) => {
      const states = new Map((await endpoints()).map((state) => [state.endpoint, state]));
      for (const { name: destination, enabled, endpoints } of destinations()) {
        for (const { id: endpoint } of endpoints) {
          const known = states.get(endpoint);
          const state = enabled ? (known ? whyClosed(known) : 'open') : 'disabled';
          gauge.set({ destination, endpoint, state }, 1);
        }
      }
    },
  );
}

function audienceGauges(make: Instruments, { store, clock, audiences }: StoreParts): void {
  const statuses = shared(audiences);
  const lastSuccesses = shared(() => store.lastSuccesses());
  make.gauge(
    'last_success_timestamp_seconds',
    'When the last run of an audience or trait that was done ended, in seconds since 1970. Of a live one that sends its changes: until when it is computed.',
    ['key'],
    async (gauge) => {
      const [successes, audiences] = await Promise.all([lastSuccesses(), statuses()]);
      for (const { key, at } of successes) gauge.set({ key }, at / 1_000);
      // A live audience runs once, and sends changes from then on.
      for (const { key, live } of audiences) {
        if (live?.hold === null && live.lag !== null) gauge.set({ key }, (clock.now() - live.lag) / 1_000);
      }
    },
  );
  make.gauge('members', 'Members of an audience or trait after its last run that was done.', ['key'], async (gauge) => {
    for (const { key, members } of await lastSuccesses()) gauge.set({ key }, members);
  });
  make.gauge(
    'audience_state',
    'State of each audience and trait: 1 for the one that it is in, of ok, new, held, failed, unfinished, paused and orphaned.',
    ['key', 'state'],
    async (gauge) => {
      for (const { key, state } of await statuses()) gauge.set({ key, state }, 1);
    },
  );
  make.gauge(
    'failing_since_timestamp_seconds',
    'When the first of the failures in a row began that the last run is one of, in seconds since 1970. A try again does not end it.',
    ['key'],
    async (gauge) => {
      for (const { key, todo } of await statuses()) if (todo?.do === 'repair') gauge.set({ key }, todo.since / 1_000);
    },
  );
}

function liveGauges(make: Instruments, { live }: StoreParts): void {
  const sizes = shared(async () => {
    const sources = new Set((await live.allStates()).map(({ source }) => source));
    return Promise.all([...sources].map(async (source) => ({ source, ...(await live.currentState(source)) })));
  });
  make.gauge('live_ids', 'Ids of which live audiences keep something.', ['source'], async (gauge) => {
    for (const { source, ids = 0 } of await sizes()) gauge.set({ source }, ids);
  });
  make.gauge('live_due', 'People for whom something may change by time alone.', ['source'], async (gauge) => {
    for (const { source, due = 0 } of await sizes()) gauge.set({ source }, due);
  });
}

/** Report 0 if the store does not answer, instead of failing the scrape. */
function healthGauges(make: Instruments, { store, clock }: StoreParts): void {
  make.gauge('store_up', '1 if the store answers and is sound, otherwise 0.', [], async (gauge) => {
    gauge.set(0);
    await store.ping();
    gauge.set(1);
  });
  make.gauge('store_ping_seconds', 'How long the store took to answer.', [], async (gauge) => {
    const startedAt = clock.monotonic();
    await store.ping();
    gauge.set((clock.monotonic() - startedAt) / 1_000);
  });
}

/** Share one read among calls that arrive while it is under way. */
function shared<T>(read: () => Promise<T>): () => Promise<T> {
  let asked: Promise<T> | null = null;
  return () => {
    asked ??= read().finally(() => {
      asked = null;
    });
    return asked;
  };
}
