import type { LiveStep, SyncReport } from '../../../jobs/index.ts';
import { reasons } from '../../../receivers/kinds.ts';
import type { ReasonCounts } from '../../membership-change.ts';
import { tookMs } from '../run-line.ts';
import type { Instruments } from './instruments.ts';

/** Upper bounds in seconds. */
const LIVE_BUCKETS = [0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 30, 300];
const RUN_BUCKETS = [0.1, 0.5, 1, 5, 15, 60, 300, 900, 3_600, 14_400];

/** Errors that are not failures of a sync: it was not begun, or was interrupted. */
const NOT_FAILED = new Set(['stopping', 'run_in_progress', 'unknown_run', 'older_configuration']);

const OUTCOMES = ['done', 'held', 'failed', 'rejected'];

export const isFailure = ({ error }: Pick<SyncReport, 'error'>): boolean =>
  error !== null && !NOT_FAILED.has(error.code);

export interface SyncMetrics {
  reported(report: SyncReport): void;
  liveStep(step: LiveStep): void;
}

export interface SyncParts {
  /** Keys of the configured audiences and traits. */
  readonly keys: () => readonly string[];
}

export function syncMetrics(make: Instruments, parts: SyncParts): SyncMetrics {
  const counter = make.counter(
    'changes_total',
    'Membership changes by reason (docs/wire.md), once for all destinations.',
    ['key', 'reason'],
    () => parts.keys().flatMap((key) => reasons.map((reason) => ({ key, reason }))),
  );
  const changes = (key: string, reasons: ReasonCounts = {}) => {
    for (const [reason, count] of Object.entries(reasons)) counter.inc({ key, reason }, count);
  };
  return { reported: runMetrics(make, parts, changes), liveStep: liveMetrics(make, changes) };
}

type CountChanges = (key: string, reasons?: ReasonCounts) => void;

function runMetrics(make: Instruments, { keys }: SyncParts, changes: CountChanges): SyncMetrics['reported'] {
  const runs = make.counter(
    'runs_total',
    'Sync runs by outcome: done, held, failed or rejected.',
    ['key', 'outcome'],
    () => keys().flatMap((key) => OUTCOMES.map((outcome) => ({ key, outcome }))),
  );
  const failures = make.counter('run_failures_total', 'Syncs that failed, by error code.', ['key', 'code']);
  const seconds = make.histogram(
    'run_seconds',
    'Time that a run worked, waits for a person left out.',
    ['key'],
    RUN_BUCKETS,
  );
  return ({ key, runs: named, isStillHeld, error }) => {
    for (const run of isStillHeld ? named.slice(0, -1) : named) {
      runs.inc({ key: run.key, outcome: run.state });
      if (run.state === 'done' && run.sent > 0) changes(run.key, run.reasons);
      const ms = tookMs(run);
      if (ms !== null) seconds.observe({ key: run.key }, ms / 1_000);
    }
    if (!isFailure({ error }) || error === null) return;
    runs.inc({ key, outcome: 'failed' });
    failures.inc({ key, code: error.code });
  };
}

function liveMetrics(make: Instruments, count: CountChanges): SyncMetrics['liveStep'] {
  const events = make.counter('live_events_total', 'Events that live audiences were computed from.', ['source']);
  const people = make.counter('live_people_total', 'People evaluated, because of events or time.', ['source']);
  const changes = make.counter('live_changes_total', 'Changes of live audiences and traits that were accepted.', [
    'source',
  ]);
  const lag = make.histogram(
    'live_lag_seconds',
    'From the receipt of an event, or the moment due, until what it changes is accepted.',
    ['source'],
    LIVE_BUCKETS,
  );
  return ({ source, ...step }) => {
    events.inc({ source }, step.events);
    people.inc({ source }, step.touched);
    changes.inc({ source }, step.sent);
    lag.observe({ source }, step.lag / 1_000);
    for (const { key, reasons } of step.moved) count(key, reasons);
  };
}
