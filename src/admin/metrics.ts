import memoize from 'lodash/memoize.js';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import {
  type AcceptResult,
  type Backlog,
  isClosed,
  type Outcome,
  type Settlement,
  type Store,
  whyClosed,
} from '../store/port.ts';

/** Counts what passes; nothing here ever scans a table. */
export interface Metrics {
  readonly registry: Registry;
  accepted(source: string, result: AcceptResult): void;
  refused(source: string, code: string): void;
  unreadable(source: string, field: string): void;
  discarded(source: string, code: string): void;
  settled(settlement: Settlement): void;
  run(key: string, outcome: string, ms: number): void;
}

/** Upper bounds in seconds: an attempt ends at five. */
const ATTEMPT_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
/** Upper bounds in seconds, from acceptance to delivery; retries go on for four hours. */
const DELIVERY_BUCKETS = [0.01, 0.05, 0.1, 0.5, 1, 5, 30, 60, 300, 1_800, 7_200, 14_400];

/**
 * @param store - asked for the backlog when the metrics are read
 * @param now - the clock's time, milliseconds since 1970
 */
export function createMetrics(store: Pick<Store, 'backlog' | 'orphans' | 'endpoints'>, now: () => number): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  const counter = (name: string, help: string, labelNames: string[]) =>
    new Counter({ name: `rollcall_${name}`, help, labelNames, registers });
  const histogram = (name: string, help: string, labelNames: string[], buckets: number[]) =>
    new Histogram({ name: `rollcall_${name}`, help, labelNames, buckets, registers });
  const messages = counter('messages_total', 'Messages by what became of them at accept.', ['source', 'result']);
  const refusals = counter('accept_refused_total', 'Batches that could not be stored, by error code.', [
    'source',
    'code',
  ]);
  const discards = counter('discards_total', 'Messages and requests that were not taken, and will not be sent again.', [
    'source',
    'code',
  ]);
  const unreadable = counter('timestamps_unreadable_total', 'Times of messages that could not be read.', [
    'source',
    'field',
  ]);
  const attempts = counter('attempts_total', 'Attempts by outcome.', ['destination', 'outcome']);
  const deliveries = counter('deliveries_total', 'Tries of deliveries by verdict.', ['destination', 'verdict']);
  const attemptSeconds = histogram('attempt_seconds', 'Time to an attempt’s status.', ['destination'], ATTEMPT_BUCKETS);
  const deliverySeconds = histogram(
    'delivery_seconds',
    'Time from acceptance to delivery.',
    ['destination'],
    DELIVERY_BUCKETS,
  );
  const runs = counter('runs_total', 'Sync runs by outcome.', ['key', 'outcome']);
  const runSeconds = new Gauge({
    name: 'rollcall_run_seconds',
    help: 'Duration of the last run.',
    labelNames: ['key'],
    registers,
  });
  backlogGauges(store, registers);
  // Finding a metric by its labels costs more than counting.
  const forDestination = memoize((destination: string) => ({
    deliveries: memoize((verdict: Settlement['verdict']['kind']) => deliveries.labels({ destination, verdict })),
    attempts: memoize((outcome: Outcome) => attempts.labels({ destination, outcome })),
    deliverySeconds: deliverySeconds.labels({ destination }),
    attemptSeconds: attemptSeconds.labels({ destination }),
  }));
  return {
    registry,
    accepted(source, { accepted, duplicates, suppressed }) {
      messages.inc({ source, result: 'accepted' }, accepted);
      if (duplicates > 0) messages.inc({ source, result: 'duplicate' }, duplicates);
      if (suppressed > 0) messages.inc({ source, result: 'suppressed' }, suppressed);
    },
    refused(source, code) {
      refusals.inc({ source, code });
    },
    discarded(source, code) {
      discards.inc({ source, code });
    },
    unreadable(source, field) {
      unreadable.inc({ source, field });
    },
    settled({ claim, verdict, attempts: made }) {
      const of = forDestination(claim.destination);
      of.deliveries(verdict.kind).inc();
      if (verdict.kind === 'delivered') of.deliverySeconds.observe((now() - claim.acceptedAt) / 1_000);
      for (const { outcome, ms } of made) {
        of.attempts(outcome).inc();
        if (outcome !== 'skipped') of.attemptSeconds.observe(ms / 1_000);
      }
    },
    run(key, outcome, ms) {
      runs.inc({ key, outcome });
      runSeconds.set({ key }, ms / 1_000);
    },
  };
}

/** Each asks for itself: gauges are read at the same time, and one that another sets would tell of the scrape before. */
function backlogGauges(store: Pick<Store, 'backlog' | 'orphans' | 'endpoints'>, registers: Registry[]): void {
  const gauge = (name: string, help: string, count: (row: Backlog) => number) =>
    new Gauge({
      name: `rollcall_${name}`,
      help,
      labelNames: ['destination'],
      registers,
      async collect() {
        for (const row of await store.backlog()) this.set({ destination: row.destination }, count(row));
      },
    });
  new Gauge({
    name: 'rollcall_orphaned_deliveries',
    help: 'Deliveries of destinations that no process that runs knows.',
    labelNames: ['destination'],
    registers,
    async collect() {
      // Those that are known again are orphans no more.
      this.reset();
      for (const { destination, pending } of await store.orphans()) this.set({ destination }, pending);
    },
  });
  new Gauge({
    name: 'rollcall_closed_endpoints',
    help: 'Endpoints that take nothing but probes, by why.',
    labelNames: ['destination', 'state'],
    registers,
    async collect() {
      this.reset();
      for (const state of await store.endpoints()) {
        if (isClosed(state)) this.inc({ destination: state.destination, state: whyClosed(state) });
      }
    },
  });
  gauge('backlog', 'Deliveries neither delivered nor dead.', ({ pending }) => pending);
  gauge('dead_letters', 'Dead letters kept, those held out included.', ({ dead }) => dead);
  gauge('held_out', 'Dead letters queue_full, which are queued again by themselves.', ({ heldOut }) => heldOut);
}
