import type { Clock } from '../src/clock.ts';
import { RollcallError } from '../src/errors.ts';
import type { Run, Store } from '../src/store/port.ts';
import type { SyncConfig } from './computation.ts';
import type { AcceptChanges, Log, Notice, Progress, RunContext, Subject } from './context.ts';
import { type OpenEngine, openEngine as openConfigured } from './engines/open.ts';
import type { Engine } from './engines/port.ts';
import { createGenerations, type Generations } from './generation.ts';
import { type Lease, takeLease } from './lease.ts';
import { pause } from './pause.ts';

export interface SyncOptions {
  readonly store: Store;
  readonly accept: AcceptChanges;
  /** Asked anew for every run, so that a reloaded configuration counts. */
  readonly config: () => SyncConfig;
  readonly clock: Clock;
  readonly log: Log;
  readonly openEngine?: OpenEngine;
  readonly onProgress?: (progress: Progress) => void;
  /** Told of held, failed and overdue runs; what it throws is logged. */
  readonly notify?: (notice: Notice) => void | Promise<void>;
}

/** What became of one audience or trait in a sync. */
export interface SyncReport {
  readonly key: string;
  readonly kind: 'audience' | 'trait';
  /** Runs made or finished, before a failure too, oldest first; the last one is held when a guard says so. */
  readonly runs: readonly Run[];
  /** Why it failed, or was not begun. */
  readonly error: RollcallError | null;
}

/** Longer than the lease of a process that was killed. */
export const PATIENCE = 40_000;
export const NO_PATIENCE = 0;
const LEASE_RETRY = 250;
/** No failures of a run. */
const QUIET = new Set(['stopping', 'run_in_progress', 'unknown_run', 'older_configuration']);

/** A user, and a destination that a source told of the user. */
export interface ToldUser {
  readonly source: string;
  readonly destination: string;
  readonly user: string;
}

export type WithEngine = <T>(name: string, readOnly: boolean, work: (engine: Engine) => Promise<T>) => Promise<T>;

/** What every kind of run needs around it: an open engine, the lease, a report, an end. */
export interface Runner {
  readonly withEngine: WithEngine;
  readonly generations: Generations;
  /**
   * @param patience - milliseconds to wait for a run of another process
   * @throws RollcallError `run_in_progress`, `older_configuration`
   */
  underLease<T>(subject: Subject, work: (context: RunContext) => Promise<T>, patience?: number): Promise<T>;
  /**
   * Does the work, which hands over each run once it is made or finished, and makes its report; failures are announced
   * and reported, never thrown.
   */
  report(subject: Subject, work: (onRun: (run: Run) => void) => Promise<void>): Promise<SyncReport>;
  notify(notice: Notice): Promise<void>;
  /** Aborts when the process stops. */
  readonly stopping: AbortSignal;
  /** Takes users out of all snapshots and plans, and out of the engines' files. */
  forget(users: readonly string[], sources: readonly string[] | null): Promise<void>;
  /** Which of these users the audiences of these sources know, and whom they told. */
  told(users: readonly string[], sources: readonly string[] | null): Promise<readonly ToldUser[]>;
  stop(): Promise<void>;
}

export function createRunner(options: SyncOptions): Runner {
  const { store, accept, config, clock, log, onProgress = () => {} } = options;
  const openEngine = options.openEngine ?? openConfigured;
  const stopping = new AbortController();
  const working = new Set<Promise<unknown>>();
  const generations = createGenerations({ store, config, log });

  const withEngine: WithEngine = async (name, readOnly, work) => {
    const { engines, folder } = config();
    const engineConfig = Object.hasOwn(engines, name) ? engines[name] : undefined;
    if (!engineConfig) {
      const message = `The configuration has no engine ${name}; what was synced with it needs it until it is retired.`;
      throw new RollcallError('engine_unreachable', message);
    }
    const engine = await openEngine(engineConfig, { folder, clock, readOnly });
    try {
      return await work(engine);
    } finally {
      await engine.close();
    }
  };

  async function waitForLease(key: string, patience: number): Promise<Lease> {
    for (const start = clock.monotonic(); ; ) {
      stopping.signal.throwIfAborted();
      const lease = await takeLease(store, clock, key);
      if (lease) return lease;
      if (clock.monotonic() - start >= patience) {
        throw new RollcallError('run_in_progress', `${key} is being synced by another run.`);
      }
      await pause(clock, LEASE_RETRY, stopping.signal);
    }
  }

  /** @throws RollcallError `run_in_progress`, `older_configuration` */
  async function leased<T>({ key }: Subject, patience: number, work: (lease: Lease) => Promise<T>): Promise<T> {
    // First without the lease, which the process that may run it must not miss.
    await generations.check(key, null);
    const lease = await waitForLease(key, patience);
    try {
      return await work(lease);
    } finally {
      await lease.release();
    }
  }

  async function notify(notice: Notice): Promise<void> {
    const { event, key, run, code, message } = notice;
    const fields = { event: `sync_${event}`, key, run: run?.id, code };
    if (event === 'failed') log.error(fields, message);
    else log.warn(fields, message);
    try {
      await options.notify?.(notice);
    } catch (error) {
      log.error({ err: error, key }, 'the notice could not be sent');
    }
  }

  const onHeld = (run: Run) =>
    notify({ event: 'held', key: run.key, run, code: 'run_held', message: run.reason ?? 'held' });

  async function announceFailure({ key }: Subject, error: RollcallError): Promise<void> {
    if (QUIET.has(error.code)) return;
    const [last] = await store.runs({ key, limit: 1 }).catch(() => []);
    const run = last?.code === error.code ? last : null;
    await notify({ event: 'failed', key, run, code: error.code, message: error.message });
  }

  async function makeReport(subject: Subject, work: (onRun: (run: Run) => void) => Promise<void>): Promise<SyncReport> {
    const { key, kind } = subject;
    const runs: Run[] = [];
    const onRun = (run: Run) => {
      runs.push(run);
      log.info({ event: 'sync_run', ...run }, `${run.action} of ${run.key}: ${run.state}`);
    };
    try {
      await work(onRun);
      return { key, kind, runs, error: null };
    } catch (cause) {
      const error = naming(key, asRollcallError(cause));
      await announceFailure(subject, error);
      return { key, kind, runs, error };
    } finally {
      // What failed is no longer under way either.
      onProgress({ run: runs.at(-1)?.id ?? '', key, phase: 'done', done: 0, total: 0 });
    }
  }

  async function byEngine(sources: readonly string[] | null) {
    const audiences = (await store.audiences()).filter(({ source }) => sources?.includes(source) ?? true);
    return Map.groupBy(audiences, ({ engine }) => engine);
  }

  return {
    withEngine,
    generations,
    underLease(subject, work, patience = PATIENCE) {
      const deps = { store, accept, config, clock, log, onProgress, onHeld };
      const contextOf = (subject: Subject, lease: Lease, engine: Engine, signal: AbortSignal): RunContext => ({
        ...deps,
        ...{ subject, lease, engine, signal: AbortSignal.any([lease.signal, signal]) },
        beside: (other, work) =>
          leased(other, PATIENCE, async (second) => {
            await generations.check(other.key, second.fence);
            return work(contextOf(other, second, engine, AbortSignal.any([lease.signal, signal])));
          }),
      });
      return leased(subject, patience, (lease) =>
        withEngine(subject.engine, false, (engine) => work(contextOf(subject, lease, engine, stopping.signal))),
      );
    },
    async report(subject, work) {
      const done = makeReport(subject, work);
      working.add(done);
      try {
        return await done;
      } finally {
        working.delete(done);
      }
    },
    notify,
    stopping: stopping.signal,
    async forget(users, sources) {
      const failures: unknown[] = [];
      for (const [name, audiences] of await byEngine(sources)) {
        const keys = sources && audiences.map(({ key }) => key);
        const forgotten = withEngine(name, false, async (engine) => {
          await engine.forget(users, keys);
          await engine.scrub('all');
        });
        await forgotten.catch((cause) => failures.push(cause));
      }
      // One engine that is gone or down must not keep the user in the others.
      if (failures.length > 0) throw failures[0];
    },
    async told(users, sources) {
      const told: ToldUser[] = [];
      for (const [name, audiences] of await byEngine(sources)) {
        // Whom an engine that is away knows, the attempt log may still tell.
        await withEngine(name, true, async (engine) => {
          for (const { key, source, destinations, lapsed } of audiences) {
            for (const user of (await engine.lookup(key, users)).keys()) {
              for (const destination of new Set([...destinations, ...lapsed])) told.push({ source, destination, user });
            }
          }
        }).catch((error) => log.warn({ err: error, engine: name }, 'an engine did not tell whom it knows'));
      }
      return told;
    },
    async stop() {
      stopping.abort(new RollcallError('stopping', 'Rollcall is stopping; the sync goes on at the next start.'));
      await Promise.allSettled(working);
    },
  };
}

/** What is no error of ours comes from an engine. */
export function asRollcallError(error: unknown): RollcallError {
  if (error instanceof RollcallError) return error;
  return new RollcallError('engine_failed', error instanceof Error ? error.message : String(error), { cause: error });
}

/** A message always says which audience it is about. */
export function naming(key: string, error: RollcallError): RollcallError {
  if (error.message.startsWith(`${key}:`) || error.message.startsWith(`${key} `)) return error;
  return new RollcallError(error.code, `${key}: ${error.message}`, { cause: error });
}
