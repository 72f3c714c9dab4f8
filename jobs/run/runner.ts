import type { Clock } from '../../src/kernel/clock.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import { type Lease, waitForLease } from '../../src/kernel/keep-lease.ts';
import { isoTime } from '../../src/kernel/timestamp.ts';
import type { Fence, Run, Store } from '../../src/store/port.ts';
import type { SyncConfig } from '../audience-or-trait.ts';
import { asRollcallError, naming } from '../engine-errors.ts';
import type { Engine } from '../engines/port.ts';
import { LIVE_ENGINE } from '../live/definitions.ts';
import type { LiveStepReport } from '../live/loop.ts';
import { createOpenEngines, type OpenEngines, type OpenEnginesOptions } from '../open-engines.ts';
import { createGenerations, type Generations } from './config-generation.ts';
import type { AcceptChanges, JobLog, LeasedContext, OnRun, Progress, RunContext, Subject } from './run-context.ts';
import { createRunLog, type RunLog } from './run-log.ts';

export interface SyncOptions extends Pick<OpenEnginesOptions, 'openEngine' | 'onWait'> {
  readonly store: Store;
  readonly accept: AcceptChanges;
  /** Called for every run, so that a reloaded configuration takes effect. */
  readonly config: () => SyncConfig;
  readonly clock: Clock;
  readonly log: JobLog;
  readonly onProgress?: (progress: Progress) => void;
  /** Called with the result of every order of a person or schedule. */
  readonly onReport?: (report: SyncReport) => void;
  readonly onLiveStep?: (step: LiveStepReport) => void;
}

export interface SyncReport {
  readonly key: string;
  readonly kind: 'audience' | 'trait';
  /** Runs made or finished, also before a failure, oldest first. The last one is held if a guard stopped it. */
  readonly runs: readonly Run[];
  /** True if the last run was held before and is in earlier reports already. */
  readonly isStillHeld: boolean;
  /** The error that it failed with, or that kept it from starting. */
  readonly error: RollcallError | null;
}

/** Milliseconds to wait for a lease: longer than that of a killed process lasts. */
export const PATIENCE = 40_000;
export const NO_PATIENCE = 0;
const LEASE_RETRY = 250;

/** Gives every kind of run its engine slot, lease, open engine and report. */
export class Runner {
  readonly engines: OpenEngines;
  readonly generations: Generations;
  readonly runLog: RunLog;
  /** Aborts when the process stops. */
  readonly signal: AbortSignal;
  private readonly options: SyncOptions;
  private readonly stopping = new AbortController();
  private readonly working = new Set<Promise<unknown>>();
  /** Waiters of this process for each lease, in order of arrival. */
  private readonly queues = new Map<string, symbol[]>();

  constructor(options: SyncOptions) {
    const { store, config, log } = options;
    this.options = options;
    this.signal = this.stopping.signal;
    this.generations = createGenerations({ store, config, log });
    this.runLog = createRunLog(store, log);
    this.engines = createOpenEngines({ ...options, signal: this.signal });
  }

  /**
   * Waits for a slot of the engine and for the lease, then does the work.
   *
   * @param patience - milliseconds to wait for a run of another process
   * @throws RollcallError `run_in_progress`, `older_configuration`
   */
  async underLease<T>(subject: Subject, work: (context: LeasedContext) => Promise<T>, patience = PATIENCE): Promise<T> {
    // The slot before the lease: another process may run what waits for a slot here.
    const leave = await this.engines.enter(subject, this.signal);
    return this.leased(subject, patience, this.signal, work).finally(leave);
  }

  /**
   * Does the work, which passes each run to `onRun` once it is made or finished, and makes its report. Failures are
   * logged and reported, never thrown.
   */
  async report(subject: Subject, work: (onRun: OnRun) => Promise<void>): Promise<SyncReport> {
    const report = await this.during(this.makeReport(subject, work));
    this.options.onReport?.(report);
    return report;
  }

  /** Does work that `stop` waits for. */
  async during<T>(work: Promise<T>): Promise<T> {
    this.working.add(work);
    try {
      return await work;
    } finally {
      this.working.delete(work);
    }
  }

  async stop(): Promise<void> {
    this.stopping.abort(new RollcallError('stopping', 'Rollcall is stopping.'));
    await Promise.allSettled(this.working);
  }

  private async makeReport(subject: Subject, work: (onRun: OnRun) => Promise<void>): Promise<SyncReport> {
    const { log, onProgress } = this.options;
    const { key, kind } = subject;
    const runs: Run[] = [];
    let isStillHeld = false;
    const onRun: OnRun = (run, isKnown = false) => {
      runs.push(run);
      isStillHeld = isKnown;
      // Live audiences often begin empty, and read no engine that could hide rows.
      if (subject.engine !== LIVE_ENGINE) this.runLog.done(run);
      log[isKnown ? 'debug' : 'info'](
        { event: 'sync_run', ...withTimes(run) },
        `${run.action} of ${run.key}: ${run.state}`,
      );
    };
    try {
      await work(onRun);
      return { key, kind, runs, isStillHeld, error: null };
    } catch (cause) {
      const error = naming(key, asRollcallError(cause));
      await this.runLog.failed(subject, error);
      // A failed run is no longer under way either.
      if (error.code !== 'run_in_progress') onProgress?.({ run: '', key, phase: 'done', done: 0, total: 0 });
      return { key, kind, runs, isStillHeld, error };
    }
  }

  /** @throws RollcallError `run_in_progress`, `older_configuration` */
  private async leased<T>(
    subject: Subject,
    patience: number,
    until: AbortSignal,
    work: (context: LeasedContext) => Promise<T>,
  ): Promise<T> {
    // First without the lease, so as not to keep it from the process that may run this.
    await this.generations.check(subject.key, null);
    const lease = await this.leaseFor(subject.key, patience);
    const { store, accept, config, clock, log, onProgress = () => {} } = this.options;
    const deps = { store, accept, config, clock, log, onProgress, onHeld: this.runLog.held };
    const context = { ...deps, subject, lease, signal: AbortSignal.any([lease.signal, until]) };
    const withEngine = (engine: Engine): RunContext => ({
      ...context,
      engine,
      beside: (other, work) =>
        this.leased(other, PATIENCE, context.signal, async (second) => {
          await this.generations.check(other.key, second.lease.fence);
          if (other.engine === subject.engine) return work(second.withEngine(engine));
          const opened = await second.open();
          return work(opened).finally(() => opened.engine.close());
        }),
    });
    const { reads, definition } = subject;
    const open = async (engine = subject.engine) =>
      withEngine(await this.engines.open({ engine, reads }, context.signal, definition?.timeout));
    return work({ ...context, withEngine, open }).finally(() => lease.release());
  }

  private async leaseFor(key: string, patience: number): Promise<Lease<Fence>> {
    const { store, clock } = this.options;
    const place = Symbol(key);
    const queue = this.queues.get(key) ?? [];
    this.queues.set(key, queue);
    queue.push(place);
    try {
      const mayAsk = () => queue[0] === place;
      const waiting = { patience, askEvery: LEASE_RETRY, signal: this.signal, mayAsk };
      const lease = await waitForLease(store, clock, `sync:${key}`, waiting);
      if (lease) return lease;
      throw new RollcallError('run_in_progress', `${key} is being synced by another run.`);
    } finally {
      queue.splice(queue.indexOf(place), 1);
      if (queue.length === 0) this.queues.delete(key);
    }
  }
}

/** A run's fields as log lines show them. */
function withTimes({ asOf, startedAt, finishedAt, ...run }: Run): object {
  const finished = finishedAt === null ? null : isoTime(finishedAt);
  return { ...run, asOf: isoTime(asOf), startedAt: isoTime(startedAt), finishedAt: finished };
}
