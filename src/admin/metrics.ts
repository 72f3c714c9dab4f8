import memoize from 'lodash/memoize.js';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { LiveStep, SyncReport } from '../../jobs/index.ts';
import type { Clock } from '../clock.ts';
import type { Destination } from '../destination.ts';
import {
  type AcceptResult,
  type Backlog,
  isClosed,
  type Outcome,
  type Settlement,
  type Store,
  whyClosed,
} from '../store/port.ts';
import { type EventLogParts, eventLogMetrics } from './event-log-metrics.ts';
import { tookMs } from './run-line.ts';

/** Counts what passes; nothing here ever scans a table. */
export interface Metrics {
  readonly registry: Registry;
  accepted(source: string, result: AcceptResult, ms: number): void;
  refused(source: string, code: string): void;
  unreadable(source: string, field: string): void;
  discarded(source: string, code: string): void;
  settled(settlement: Settlement): void;
  reported(report: SyncReport): void;
  /** Something of the event log failed in the background. */
  logFailed(): void;
  liveStep(step: LiveStep): void;
}

/** Failures that say nothing of a sync: it was not begun, or goes on at the next start. */
const NOT_FAILED = new Set(['stopping', 'run_in_progress', 'unknown_run', 'older_configuration']);

/** Whether a sync failed, as far as a report says. */
export const isFailure = ({ error }: Pick<SyncReport, 'error'>): boolean =>
  error !== null && !NOT_FAILED.has(error.code);

const ACCEPT_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5];
const LIVE_BUCKETS = [0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 30, 300];
const RUN_BUCKETS = [0.1, 0.5, 1, 5, 15, 60, 300, 900, 3_600, 14_400];
/** Upper bounds in seconds: an attempt ends at five. */
const ATTEMPT_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
/** Upper bounds in seconds, from acceptance to delivery; retries go on for four hours. */
const DELIVERY_BUCKETS = [0.01, 0.05, 0.1, 0.5, 1, 5, 30, 60, 300, 1_800, 7_200, 14_400];

interface MetricsParts extends EventLogParts {
  /** Asked when the metrics are read. */
  readonly store: Pick<Store, 'backlog' | 'orphans' | 'endpoints' | 'oldestUntried' | 'lastSuccesses' | 'ping'>;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly destinations: () => readonly Destination[];
}

/** The metrics of docs/metrics.md; a test holds both together. */
export function createMetrics(parts: MetricsParts): Metrics {
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
  const liveEvents = counter('live_events_total', 'Events that live audiences were computed from.', ['source']);
  const livePeople = counter('live_people_total', 'People looked at, because of events or the time.', ['source']);
  const liveChanges = counter('live_changes_total', 'Changes of live audiences and traits that were accepted.', [
    'source',
  ]);
  const liveLag = histogram(
    'live_lag_seconds',
    'From the receipt of an event, or the moment due, until what it changes is accepted.',
    ['source'],
    LIVE_BUCKETS,
  );
  const attempts = counter('attempts_total', 'Attempts by outcome.', ['destination', 'outcome']);
  const deliveries = counter('deliveries_total', 'Tries of deliveries by verdict.', ['destination', 'verdict']);
  const attemptSeconds = histogram('attempt_seconds', 'Time to an attempt’s status.', ['destination'], ATTEMPT_BUCKETS);
  const deliverySeconds = histogram(
    'delivery_seconds',
    'Time from acceptance to delivery.',
    ['destination'],
    DELIVERY_BUCKETS,
  );
  const acceptSeconds = histogram('accept_seconds', 'Time until a batch was durable.', ['source'], ACCEPT_BUCKETS);
  const runs = counter('runs_total', 'Sync runs by outcome: done, held, failed or rejected.', ['key', 'outcome']);
  const failures = counter('run_failures_total', 'Syncs that failed, by error code.', ['key', 'code']);
  const runSeconds = histogram(
    'run_seconds',
    'Time that a run worked, waits for a person left out.',
    ['key'],
    RUN_BUCKETS,
  );
  storeGauges(parts, registers);
  const logFailed = eventLogMetrics(parts, registers);
  // Finding a metric by its labels costs more than counting.
  const forDestination = memoize((destination: string) => ({
    deliveries: memoize((verdict: Settlement['verdict']['kind']) => deliveries.labels({ destination, verdict })),
    attempts: memoize((outcome: Outcome) => attempts.labels({ destination, outcome })),
    deliverySeconds: deliverySeconds.labels({ destination }),
    attemptSeconds: attemptSeconds.labels({ destination }),
  }));
  return {
    registry,
    logFailed,
    accepted(source, { accepted, duplicates, suppressed }, ms) {
      acceptSeconds.observe({ source }, ms / 1_000);
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
      if (verdict.kind === 'delivered') of.deliverySeconds.observe((parts.storeTime() - claim.acceptedAt) / 1_000);
      for (const { outcome, ms } of made) {
        of.attempts(outcome).inc();
        if (outcome !== 'skipped') of.attemptSeconds.observe(ms / 1_000);
      }
    },
    liveStep({ source, events, touched, sent, lag }) {
      liveEvents.inc({ source }, events);
      livePeople.inc({ source }, touched);
      liveChanges.inc({ source }, sent);
      liveLag.observe({ source }, lag / 1_000);
    },
    reported({ key, runs: made, error }) {
      for (const run of made) {
        runs.inc({ key: run.key, outcome: run.state });
        const ms = tookMs(run);
        if (ms !== null) runSeconds.observe({ key: run.key }, ms / 1_000);
      }
      if (!isFailure({ error }) || error === null) return;
      runs.inc({ key, outcome: 'failed' });
      failures.inc({ key, code: error.code });
    },
  };
}

/** Gauges that are read from the store with each scrape. They ask for counters and ends of indexes, and never count rows. */
function storeGauges({ store, clock, destinations }: MetricsParts, registers: Registry[]): void {
  // Several gauges of one scrape come from one look at the store.
  const [backlog, endpoints] = [shared(() => store.backlog()), shared(() => store.endpoints())];
  const lastSuccesses = shared(() => store.lastSuccesses());
  // A scrape says that the store does not answer, rather than nothing at all.
  const gauge = (name: string, help: string, labelNames: string[], read: (gauge: Gauge) => Promise<void>) =>
    new Gauge({
      name: `rollcall_${name}`,
      help,
      labelNames,
      registers,
      async collect() {
        // Series that are gone since the last scrape are removed.
        this.reset();
        await read(this).catch(() => undefined);
      },
    });
  const perDestination = (name: string, help: string, count: (row: Backlog) => number) =>
    gauge(name, help, ['destination'], async (gauge) => {
      for (const row of await backlog()) gauge.set({ destination: row.destination }, count(row));
    });
  perDestination('backlog', 'Deliveries neither delivered nor dead.', ({ pending }) => pending);
  perDestination('dead_letters', 'Dead letters kept, those held out included.', ({ dead }) => dead);
  perDestination(
    'held_out',
    'Dead letters queue_full, which are queued again by themselves.',
    ({ heldOut }) => heldOut,
  );
  gauge('oldest_untried_seconds', 'Age of what waits longest for its first try.', ['destination'], async (gauge) => {
    for (const { destination, since } of await store.oldestUntried())
      gauge.set({ destination }, Math.max(0, clock.now() - since) / 1_000);
  });
  gauge(
    'orphaned_deliveries',
    'Deliveries of destinations that no process that runs knows.',
    ['destination'],
    async (gauge) => {
      for (const { destination, pending } of await store.orphans()) gauge.set({ destination }, pending);
    },
  );
  gauge(
    'closed_endpoints',
    'Endpoints that take nothing but probes, by why.',
    ['destination', 'state'],
    async (gauge) => {
      for (const state of await endpoints()) {
        if (isClosed(state)) gauge.inc({ destination: state.destination, state: whyClosed(state) });
      }
    },
  );
  gauge(
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
  gauge(
    'last_success_timestamp_seconds',
    'When the last run of an audience or trait that was done ended, in seconds since 1970.',
    ['key'],
    async (gauge) => {
      for (const { key, at } of await lastSuccesses()) gauge.set({ key }, at / 1_000);
    },
  );
  gauge('members', 'Members of an audience or trait after its last run that was done.', ['key'], async (gauge) => {
    for (const { key, members } of await lastSuccesses()) gauge.set({ key }, members);
  });
  gauge('store_up', 'Whether the store answers and is sound: 1 or 0.', [], async (gauge) => {
    gauge.set(0);
    await store.ping();
    gauge.set(1);
  });
  gauge('store_ping_seconds', 'How long the store took to answer.', [], async (gauge) => {
    const startedAt = clock.monotonic();
    await store.ping();
    gauge.set((clock.monotonic() - startedAt) / 1_000);
  });
}

/** Whoever asks while an answer is under way gets that one. */
function shared<T>(read: () => Promise<T>): () => Promise<T> {
  let asked: Promise<T> | null = null;
  return () => {
    asked ??= read().finally(() => {
      asked = null;
    });
    return asked;
  };
}
