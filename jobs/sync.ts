import type { Remark } from '../src/remark.ts';
import type { AudiencePause, AudienceRecord } from '../src/store/port.ts';
import { createCatchUps } from './catch-up.ts';
import { computations } from './computation.ts';
import { type CurrentBody, currentBodies, type DeadChange, type Unreachable } from './current-bodies.ts';
import { LIVE_ENGINE } from './live/definitions.ts';
import { createLive } from './live/live.ts';
import { type ComputedType, createLooks } from './looks.ts';
import { hasEngine } from './open-engines.ts';
import { createOrders } from './orders.ts';
import type { SyncPlan } from './plan.ts';
import { createReading, type Reading } from './reading.ts';
import { createRunner, NO_PATIENCE, type SyncOptions, type SyncReport } from './runner.ts';
import { createSchedules } from './schedule.ts';
import { configured, createSubjects, orphan } from './subjects.ts';
import { forgetUsers, type ToldUser, toldUsers } from './told-users.ts';
import { nextTryAt } from './tries.ts';

export interface SyncTime {
  /** The run's time in milliseconds since 1970; without it, now. */
  readonly now?: number | undefined;
  /** Whether renamed audiences end under their former names without being held for a person. */
  readonly renames?: boolean | undefined;
}

/** The audience sync (docs/audiences.md). */
export interface Sync extends Reading {
  /**
   * Syncs these audiences and traits, or all, but those that are paused. A failure of one is in its report and stops no other.
   *
   * @throws RollcallError `unknown_audience`
   */
  run(keys?: readonly string[], time?: SyncTime): Promise<readonly SyncReport[]>;
  /** The changes that `run` would send; writes nothing. */
  plan(keys?: readonly string[], time?: SyncTime): Promise<readonly SyncPlan[]>;
  /** The audiences and traits that are configured, with what their values are in JSON; checks definitions, runs none. */
  types(): Promise<readonly ComputedType[]>;
  /** What an engine says of itself. @throws RollcallError `engine_unreachable`, `engine_failed` */
  examine(engine: string): Promise<readonly Remark[]>;
  /** Sends everything again: `true` to members, `false` to everyone who ever left. */
  resync(key: string, time?: SyncTime): Promise<SyncReport>;
  /** Sends `false` to every member and forgets the audience, in the configuration or not. */
  retire(key: string, time?: SyncTime): Promise<SyncReport>;
  /** Lets a held run go on. @throws RollcallError `unknown_run` */
  approve(run: string): Promise<SyncReport>;
  /** Throws a held run away, or the rest of one that can't be finished. @throws RollcallError `unknown_run` */
  reject(run: string): Promise<SyncReport>;
  /** Audiences that the store knows and the configuration does not. */
  orphans(): Promise<readonly AudienceRecord[]>;
  /** Audiences that were retired, and that not everybody who was told of them knows of. */
  ended(): Promise<readonly AudienceRecord[]>;
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

export function createSync(options: SyncOptions): Sync {
  const { store, clock, log, config } = options;
  const runner = createRunner(options);
  const subjects = createSubjects(store, config);
  const orders = createOrders({ store, clock, runner, subjects });
  const looks = createLooks({ store, clock, config, runner, subjects });
  const { withEngine, generations, alerts } = runner;

  /** Tells of the end of audiences that were retired, whoever was away then; reports what it did. */
  async function settleEnded({ now }: SyncTime): Promise<SyncReport[]> {
    const reports: SyncReport[] = [];
    for (const record of await subjects.ended()) {
      // Without its engine nobody can be told; it is no failure of each sync.
      if (!hasEngine(record.engine, config())) continue;
      reports.push(await orders.order(orphan(record), { action: 'settle', now }));
    }
    return reports.filter(({ runs, error }) => runs.length > 0 || error !== null);
  }

  async function warnOfOrphans(): Promise<void> {
    for (const { key } of await subjects.orphans()) {
      log.warn({ event: 'sync_orphan', key }, `${key} is no longer configured; \`rollcall retire ${key}\` ends it`);
    }
  }

  const pauseOf = async (key: string): Promise<AudiencePause | null> =>
    (await store.pausedAudiences()).find((pause) => pause.key === key) ?? null;

  /** Passes over audiences that a person paused, and says so. */
  async function isPaused(key: string): Promise<boolean> {
    const pause = await pauseOf(key);
    if (pause === null) return false;
    const { at, by } = pause;
    const since = new Date(at).toISOString();
    log.info({ event: 'sync_paused', key, by, since }, `${key} is not synced: ${by} paused it at ${since}`);
    return true;
  }

  /** Whether whoever started the schedules agreed to every change of a name. */
  let agreed = false;
  const live = createLive({
    ...{ store, accept: options.accept, config, clock, log },
    check: generations.check,
    settle: async (key) => {
      // A paused live audience is computed, and sends nothing.
      if ((await pauseOf(key)) !== null) return;
      await orders.order(await subjects.find(key), { action: 'sync', renames: agreed, patience: NO_PATIENCE });
    },
    onStep: options.onLiveStep ?? (() => {}),
  });
  const catchUps = createCatchUps({
    config,
    clock,
    log,
    store,
    settle: async ({ key }) => {
      if ((await pauseOf(key)) !== null) return true;
      const order = { action: 'settle', patience: NO_PATIENCE } as const;
      return (await orders.order(await subjects.find(key), order)).error === null;
    },
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
    nextTryAt: (key, tick) => nextTryAt(store, key, tick, clock.now()),
    run: async (computation, tick, isRetry) => {
      if (await isPaused(computation.key)) return true;
      const order = { action: 'sync', tick, isRetry, renames: agreed, patience: NO_PATIENCE } as const;
      const { error } = await orders.order(configured(computation, config()), order);
      return error?.code !== 'run_in_progress';
    },
    overdue: (key, message) => alerts.send({ event: 'overdue', key, run: null, code: null, message }),
  });

  return {
    async run(keys, time = {}) {
      const reports: SyncReport[] = [];
      const selected = subjects.selected(keys);
      if (selected.some(({ engine }) => engine === LIVE_ENGINE)) await live.once();
      for (const subject of selected) {
        if (await isPaused(subject.key)) continue;
        reports.push(await orders.order(subject, { action: 'sync', ...time }));
      }
      if (runner.signal.aborted) return reports;
      if (!keys?.length) reports.push(...(await settleEnded(time)));
      await warnOfOrphans();
      return reports;
    },
    async plan(keys, time = {}) {
      const plans: SyncPlan[] = [];
      for (const subject of subjects.selected(keys)) plans.push(await looks.plan(subject, time.now));
      return plans;
    },
    async types() {
      const types: ComputedType[] = [];
      for (const computation of computations(config())) types.push(await looks.type(configured(computation, config())));
      return types;
    },
    examine: runner.examine,
    resync: async (key, { now } = {}) => orders.order(await subjects.find(key), { action: 'resync', now }),
    retire: async (key, { now } = {}) => orders.order(await subjects.findWhereItLies(key), { action: 'retire', now }),
    approve: orders.approve,
    reject: orders.reject,
    ...createReading({ store, clock, config, log, subjects, withEngine }),
    orphans: subjects.orphans,
    ended: subjects.ended,
    currentBodies: (letters, unreachable = new Map()) =>
      currentBodies({ store, clock, config, withEngine }, letters, unreachable),
    forget: (users, sources) => forgetUsers({ store, withEngine, log }, users, sources),
    configured: generations.take,
    told: (users, sources) => toldUsers({ store, withEngine, log }, users, sources),
    async start(renames = false) {
      agreed = renames;
      await schedules.start();
      catchUps.start();
      await live.start();
      await warnOfOrphans();
    },
    async stop() {
      schedules.stop();
      catchUps.stop();
      await Promise.all([live.stop(), runner.stop()]);
    },
  };
}
