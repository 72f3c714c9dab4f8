import { RollcallError } from '../src/errors.ts';
import type { AudienceRecord, Run } from '../src/store/port.ts';
import { createCatchUps } from './catch-up.ts';
import { computations } from './computation.ts';
import type { RunContext, Subject } from './context.ts';
import type { TraitColumn } from './engines/port.ts';
import { planOf, type SyncPlan } from './plan.ts';
import { createReading, type Reading } from './reading.ts';
import { type CurrentBody, currentBodies, type DeadChange, type Unreachable } from './replay.ts';
import { approveRun, type Order, performOrder, rejectRun, unfinishedRuns } from './run.ts';
import {
  asRollcallError,
  createRunner,
  NO_PATIENCE,
  naming,
  PATIENCE,
  type SyncOptions,
  type SyncReport,
  type ToldUser,
} from './runner.ts';
import { createSchedules } from './schedule.ts';
import { configured, createSubjects } from './subjects.ts';

export interface SyncTime {
  /** The run's time in milliseconds since 1970; without it, now. */
  readonly now?: number | undefined;
  /** Whether renamed audiences end under their former names without being held for a person. */
  readonly renames?: boolean | undefined;
}

/** The audience sync (docs/audiences.md). */
export interface Sync extends Reading {
  /**
   * Syncs these audiences and traits, or all that are not paused. A failure of one is in its report and stops no other.
   *
   * @throws RollcallError `unknown_audience`
   */
  run(keys?: readonly string[], time?: SyncTime): Promise<readonly SyncReport[]>;
  /** What `run` would send; writes nothing. */
  plan(keys?: readonly string[], time?: SyncTime): Promise<readonly SyncPlan[]>;
  /** The audiences and traits that are configured, with what their values are in JSON; checks definitions, runs none. */
  types(): Promise<readonly ComputedType[]>;
  /** Sends everything again: `true` to members, `false` to everyone who ever left. */
  resync(key: string, time?: SyncTime): Promise<SyncReport>;
  /** Sends `false` to every member and forgets the audience, in the configuration or not. */
  retire(key: string, time?: SyncTime): Promise<SyncReport>;
  /** Lets a held run go on. @throws RollcallError `unknown_run` */
  approve(run: string): Promise<SyncReport>;
  /** Throws a held run away. @throws RollcallError `unknown_run` */
  reject(run: string): Promise<SyncReport>;
  /** Audiences that the store knows and the configuration does not. */
  orphans(): Promise<readonly AudienceRecord[]>;
  /**
   * The bodies that tell the values of now, for dead letters that are sent again, in their order.
   *
   * @param unreachable - the same for all pages of one replay
   */
  currentBodies(letters: readonly DeadChange[], unreachable?: Unreachable): Promise<readonly CurrentBody[]>;
  /** Takes users out of all snapshots and plans, and out of the engines' files. */
  forget(users: readonly string[], sources: readonly string[] | null): Promise<void>;
  /** Says that the configuration of now counts: at the start of a process that is there to stay, and at its reloads. */
  configured(): Promise<void>;
  /** Which of these users the audiences of these sources know, and whom they told. */
  told(users: readonly string[], sources: readonly string[] | null): Promise<readonly ToldUser[]>;
  /**
   * Runs the schedules; missed ticks are caught up once.
   *
   * @param renames - whether renamed audiences end under their former names without being held for a person
   */
  start(renames?: boolean): Promise<void>;
  /** Ends the schedules and, between two batches, the runs; they go on at the next start. */
  stop(): Promise<void>;
}

/** An audience or computed trait, as its receivers see it. */
export interface ComputedType {
  readonly key: string;
  readonly kind: 'audience' | 'trait';
  /** The traits that it sends; of an audience none, since its value is a boolean. */
  readonly columns: readonly TraitColumn[];
}

type Decision = (context: RunContext, run: Run, onRun: (run: Run) => void) => Promise<void>;

export function createSync(options: SyncOptions): Sync {
  const { store, clock, log, config } = options;
  const runner = createRunner(options);
  const subjects = createSubjects(store, config);
  const { withEngine, underLease, report, generations } = runner;

  function order(
    subject: Subject,
    action: Order['action'],
    { now, tick, renames }: SyncTime & { readonly tick?: number } = {},
    patience = PATIENCE,
  ): Promise<SyncReport> {
    const asOf = now ?? clock.now();
    return report(subject, async (onRun) => {
      const former = action === 'sync' ? await subjects.formerSelf(subject) : null;
      await perform(subject, { action, asOf, tick, former, renames }, onRun, patience);
    });
  }

  /** Under its lease, and recorded as run by this configuration. */
  function perform(subject: Subject, given: Order, onRun: (run: Run) => void, patience: number): Promise<void> {
    const work = async (context: RunContext) => {
      await generations.check(subject.key, context.lease.fence);
      await performOrder(context, given, onRun);
    };
    return underLease(subject, work, patience);
  }

  /** Approves or rejects a held run, in the engine that it was staged in. */
  async function decide(id: string, work: Decision): Promise<SyncReport> {
    const asked = await store.run(id);
    if (!asked) throw new RollcallError('unknown_run', `There is no run ${id}.`);
    if (asked.state !== 'held') throw notHeld(id);
    const subject = await subjects.findWhereItLies(asked.key);
    return report(subject, (onRun) =>
      underLease(subject, async (context) => {
        const run = (await unfinishedRuns(context)).find((unfinished) => unfinished.id === id);
        if (run?.state !== 'held') throw notHeld(id);
        await work(context, run, onRun);
      }),
    );
  }

  async function plan(subject: Subject, time: SyncTime): Promise<SyncPlan> {
    const former = await subjects.formerSelf(subject);
    const asOf = time.now ?? clock.now();
    const planned = withEngine(subject.engine, true, (engine) =>
      planOf({ store, engine, clock, subject, former, asOf, config }),
    );
    return planned.catch((error) => {
      throw naming(subject.key, asRollcallError(error));
    });
  }

  async function typeOf(subject: Subject): Promise<ComputedType> {
    const { key, kind, definition } = subject;
    if (kind === 'audience') return { key, kind, columns: [] };
    const described = withEngine(subject.engine, true, (engine) =>
      engine.describe({
        key,
        kind,
        sql: definition?.sql ?? '',
        asOf: clock.now(),
        freshness: definition?.expect.freshness?.column,
      }),
    );
    const columns = await described.catch((error) => {
      throw naming(key, asRollcallError(error));
    });
    return { key, kind, columns };
  }

  /** Tells of the end of audiences that were retired, whoever was away then; reports what it did. */
  async function settleEnded(time?: SyncTime): Promise<SyncReport[]> {
    const reports: SyncReport[] = [];
    for (const subject of await subjects.ended()) reports.push(await order(subject, 'settle', time));
    return reports.filter(({ runs, error }) => runs.length > 0 || error !== null);
  }

  async function warnOfOrphans(): Promise<void> {
    for (const { key } of await subjects.orphans()) {
      log.warn({ event: 'sync_orphan', key }, `${key} is no longer configured; \`rollcall retire ${key}\` ends it`);
    }
  }

  /** Whether whoever started the schedules agreed to every change of a name. */
  let agreed = false;
  const catchUps = createCatchUps({
    config,
    clock,
    log,
    store,
    settle: async ({ key }) => (await order(await subjects.find(key), 'settle', {}, NO_PATIENCE)).error === null,
  });
  const schedules = createSchedules({
    config,
    clock,
    log,
    lastRunAt: async (key) => {
      const record = await store.audience(key);
      return record?.endedAt === null ? record.lastRunAt : null;
    },
    unfinished: (key) => store.runs({ key, states: ['staged', 'sending', 'committed'], limit: 1 }),
    run: async (computation, tick) => {
      const { error } = await order(configured(computation), 'sync', { tick, renames: agreed }, NO_PATIENCE);
      return error?.code !== 'run_in_progress';
    },
    overdue: (key, message) => runner.notify({ event: 'overdue', key, run: null, code: null, message }),
  });

  return {
    async run(keys, time) {
      const reports: SyncReport[] = [];
      for (const subject of subjects.selected(keys)) reports.push(await order(subject, 'sync', time));
      if (runner.stopping.aborted) return reports;
      if (!keys?.length) reports.push(...(await settleEnded(time)));
      await warnOfOrphans();
      return reports;
    },
    async plan(keys, time = {}) {
      const plans: SyncPlan[] = [];
      for (const subject of subjects.selected(keys)) plans.push(await plan(subject, time));
      return plans;
    },
    async types() {
      const types: ComputedType[] = [];
      for (const computation of computations(config())) types.push(await typeOf(configured(computation)));
      return types;
    },
    resync: async (key, time) => order(await subjects.find(key), 'resync', time),
    retire: async (key, time) => order(await subjects.findWhereItLies(key), 'retire', time),
    approve: (run) => decide(run, approveRun),
    reject: (run) => decide(run, async (context, held, onRun) => onRun(await rejectRun(context, held, 'Rejected.'))),
    ...createReading({ store, config, log, subjects, withEngine }),
    orphans: subjects.orphans,
    currentBodies: (letters, unreachable = new Map()) =>
      currentBodies({ store, clock, withEngine }, letters, unreachable),
    forget: runner.forget,
    configured: generations.take,
    told: runner.told,
    async start(renames = false) {
      agreed = renames;
      await schedules.start();
      catchUps.start();
      await warnOfOrphans();
    },
    async stop() {
      schedules.stop();
      catchUps.stop();
      await runner.stop();
    },
  };
}

function notHeld(id: string): RollcallError {
  return new RollcallError('unknown_run', `The run ${id} is not held (any more).`);
}
