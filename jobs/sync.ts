import { RollcallError } from '../src/errors.ts';
import type { AudienceRecord, Run } from '../src/store/port.ts';
import { type Computation, computations, definitionHash } from './computation.ts';
import type { RunContext, Subject } from './context.ts';
import type { Action } from './engines/port.ts';
import { planOf, type SyncPlan } from './plan.ts';
import { type CurrentBody, currentBodies, type DeadChange } from './replay.ts';
import { approveRun, performOrder, rejectRun, unfinishedRuns } from './run.ts';
import { createRunner, NO_PATIENCE, PATIENCE, type SyncOptions, type SyncReport } from './runner.ts';
import { createSchedules } from './schedule.ts';
import { type Story, tellStory } from './why.ts';

export interface SyncTime {
  /** The run's time in milliseconds since 1970; without it, now. */
  readonly now?: number | undefined;
}

/** The audience sync (design section 8). */
export interface Sync {
  /**
   * Syncs these audiences and traits, or all that are not paused. A failure of one is in its report and stops no other.
   *
   * @throws RollcallError `unknown_audience`
   */
  run(keys?: readonly string[], time?: SyncTime): Promise<readonly SyncReport[]>;
  /** What `run` would send; writes nothing. */
  plan(keys?: readonly string[], time?: SyncTime): Promise<readonly SyncPlan[]>;
  /** Sends everything again: `true` to members, `false` to everyone who ever left. */
  resync(key: string, time?: SyncTime): Promise<SyncReport>;
  /** Sends `false` to every member and forgets the audience, in the configuration or not. */
  retire(key: string, time?: SyncTime): Promise<SyncReport>;
  /** Lets a held run go on. @throws RollcallError `unknown_run` */
  approve(run: string): Promise<SyncReport>;
  /** Throws a held run away. @throws RollcallError `unknown_run` */
  reject(run: string): Promise<SyncReport>;
  /** One user's story in one audience. @throws RollcallError `unknown_audience` */
  why(key: string, user: string): Promise<Story>;
  /** Audiences that the store knows and the configuration does not. */
  orphans(): Promise<readonly AudienceRecord[]>;
  /** The bodies that tell the values of now, for dead letters that are sent again, in their order. */
  currentBodies(letters: readonly DeadChange[]): Promise<readonly CurrentBody[]>;
  /** Takes users out of all snapshots, plans, and what is being sent. */
  forget(users: readonly string[], sources: readonly string[] | null): Promise<void>;
  /** Runs the schedules; missed ticks are caught up once. */
  start(): Promise<void>;
  /** Ends the schedules and, between two batches, the runs; they go on at the next start. */
  stop(): Promise<void>;
}

export function createSync(options: SyncOptions): Sync {
  const { store, clock, log, config } = options;
  const runner = createRunner(options);
  const { withEngine, underLease, report } = runner;

  async function order(
    subject: Subject,
    action: Action,
    time: SyncTime = {},
    patience = PATIENCE,
  ): Promise<SyncReport> {
    const asOf = time.now ?? clock.now();
    return report(subject, async () => {
      const former = action === 'sync' ? await formerSelf(subject) : null;
      const retired = former
        ? await underLease(orphan(former), (context) => performOrder(context, { action: 'retire', asOf }), patience)
        : [];
      return [
        ...retired,
        ...(await underLease(subject, (context) => performOrder(context, { action, asOf }), patience)),
      ];
    });
  }

  /** The audience that a new one was renamed from: gone from the configuration, with the same definition. */
  async function formerSelf(subject: Subject): Promise<AudienceRecord | null> {
    if (await store.audience(subject.key)) return null;
    return (await orphans()).find(({ definitionHash: hash }) => hash === subject.definition?.hash) ?? null;
  }

  async function orphans(): Promise<readonly AudienceRecord[]> {
    const known = new Set(computations(config()).map(({ key }) => key));
    return (await store.audiences()).filter(({ key }) => !known.has(key));
  }

  async function warnOfOrphans(): Promise<void> {
    for (const { key } of await orphans()) {
      log.warn({ event: 'sync_orphan', key }, `${key} is no longer configured; \`rollcall retire ${key}\` ends it`);
    }
  }

  async function subjectOf(key: string): Promise<Subject> {
    const computation = computations(config()).find((candidate) => candidate.key === key);
    if (computation) return configured(computation);
    const record = await store.audience(key);
    if (record) return orphan(record);
    throw new RollcallError('unknown_audience', `There is no audience or trait ${key}.`);
  }

  /** As `subjectOf`, but with the engine that has the snapshot, if that is another one and still configured. */
  async function whereItLies(key: string): Promise<Subject> {
    const subject = await subjectOf(key);
    const engine = (await store.audience(key))?.engine;
    return engine !== undefined && engine in config().engines ? { ...subject, engine } : subject;
  }

  function selected(keys: readonly string[] = []): readonly Computation[] {
    const all = computations(config());
    const unknown = keys.filter((key) => !all.some((computation) => computation.key === key));
    if (unknown.length > 0) {
      throw new RollcallError('unknown_audience', `There is no audience or trait ${unknown.join(', ')}.`);
    }
    return all.filter(({ key, paused }) => !paused && (keys.length === 0 || keys.includes(key)));
  }

  async function decide(runId: string, work: (context: RunContext, run: Run) => Promise<Run>): Promise<SyncReport> {
    const asked = await store.run(runId);
    if (!asked) throw new RollcallError('unknown_run', `There is no run ${runId}.`);
    const subject = await subjectOf(asked.key);
    return report(subject, () =>
      underLease(subject, async (context) => {
        const run = (await unfinishedRuns(context)).find(({ id, state }) => id === runId && state === 'held');
        if (!run) throw new RollcallError('unknown_run', `The run ${runId} is not held (any more).`);
        return [await work(context, run)];
      }),
    );
  }

  const schedules = createSchedules({
    config,
    clock,
    log,
    lastRunAt: async (key) => (await store.audience(key))?.lastRunAt ?? null,
    unfinished: (key) => store.runs({ key, states: ['staged', 'sending', 'committed'], limit: 1 }),
    run: async (computation) => {
      const { error } = await order(configured(computation), 'sync', {}, NO_PATIENCE);
      return error?.code !== 'run_in_progress';
    },
    overdue: (key, message) => runner.notify({ event: 'overdue', key, run: null, code: null, message }),
  });

  return {
    async run(keys, time) {
      const reports: SyncReport[] = [];
      for (const computation of selected(keys)) reports.push(await order(configured(computation), 'sync', time));
      await warnOfOrphans();
      return reports;
    },
    async plan(keys, time = {}) {
      const plans: SyncPlan[] = [];
      for (const computation of selected(keys)) {
        const subject = configured(computation);
        const former = await formerSelf(subject);
        const asOf = time.now ?? clock.now();
        plans.push(
          await withEngine(subject.engine, true, (engine) =>
            planOf({ store, engine, clock, subject, former, asOf, config }),
          ),
        );
      }
      return plans;
    },
    resync: async (key, time) => order(await subjectOf(key), 'resync', time),
    retire: async (key, time) => order(await whereItLies(key), 'retire', time),
    approve: (run) => decide(run, approveRun),
    reject: (run) => decide(run, (context, held) => rejectRun(context, held, 'Rejected.')),
    async why(key, user) {
      const subject = await subjectOf(key);
      return withEngine(subject.engine, true, (engine) => tellStory(store, engine, subject, user));
    },
    orphans,
    currentBodies: (letters) => currentBodies({ store, clock, withEngine }, letters),
    forget: runner.forget,
    async start() {
      await schedules.start();
      await warnOfOrphans();
    },
    async stop() {
      schedules.stop();
      await runner.stop();
    },
  };
}

/** The JSON line of a run (design section 5). */
export function runLine(run: Run) {
  const { key, kind, first, members, entered, exited, invalid, duplicates, held, sent, startedAt } = run;
  return {
    run: run.id,
    key,
    kind,
    first,
    members,
    entered,
    exited,
    invalid,
    duplicates,
    held,
    sent,
    startedAt: new Date(startedAt).toISOString(),
    ms: run.finishedAt === null ? null : run.finishedAt - startedAt,
  };
}

function configured({ key, kind, engine, source, sql, guard, ...computation }: Computation): Subject {
  const hash = definitionHash({ ...computation, kind, engine, sql });
  return { key, kind, engine, source, definition: { sql, hash, guard } };
}

function orphan({ key, kind, engine, source }: AudienceRecord): Subject {
  return { key, kind, engine, source, definition: null };
}
