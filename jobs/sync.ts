import { RollcallError } from '../src/kernel/errors.ts';
import type { Remark } from '../src/kernel/remark.ts';
import type { ErasedIds } from '../src/store/deleted-ids.ts';
import type { AudienceRecord } from '../src/store/port.ts';
import { computations } from './audience-or-trait.ts';
import { type CurrentBody, currentBodies, type DeadChange, type UnreachableEngines } from './current-bodies.ts';
import { forgetUsers, type ToldUser, toldUsers } from './forget-users.ts';
import { LIVE_ENGINE } from './live/definitions.ts';
import { hasEngine } from './open-engines.ts';
import { configured, createSubjects, orphan, type Subjects } from './run/audience-subjects.ts';
import type { JobLog, Subject } from './run/run-context.ts';
import { Runner, type SyncOptions, type SyncReport } from './run/runner.ts';
import { type Background, createBackground } from './schedule/background.ts';
import { createOrders, type Orders } from './schedule/orders.ts';
import { createPauses, type Pauses } from './schedule/pauses.ts';
import type { SyncPlan } from './view/plan.ts';
import { type ComputedType, createPreviews } from './view/previews.ts';
import { createQueries, type Queries } from './view/queries.ts';
import type { Trial, TrialRequest } from './view/trial.ts';

export interface SyncTime {
  /** The run's time in milliseconds since 1970; without it, now. */
  readonly now?: number | undefined;
  /** If true, renamed audiences end under their former names without approval. */
  readonly renames?: boolean | undefined;
}

export interface PlanTime extends Pick<SyncTime, 'now'> {
  /** Cancels the query. */
  readonly signal?: AbortSignal | undefined;
}

/** The audience sync (docs/audiences.md). */
export interface Sync extends Queries {
  /**
   * Syncs these audiences and traits, or all, except paused ones. A failure is reported and doesn't stop the others.
   *
   * @throws RollcallError `unknown_audience`; `bad_usage` for another time if one is live
   */
  run(keys?: readonly string[], time?: SyncTime): Promise<readonly SyncReport[]>;
  /** Throws what `run` would throw, without running anything. */
  check(keys: readonly string[], time: SyncTime): void;
  /**
   * The changes that `run` would send, also for named but paused audiences. Writes nothing. Throws as `run` does, and
   * `engine_busy`.
   */
  plan(keys?: readonly string[], time?: PlanTime): Promise<readonly SyncPlan[]>;
  /** The outcome of a definition that is not configured. Writes nothing. @throws RollcallError `engine_busy` */
  tryOut(request: TrialRequest): Promise<Trial>;
  /** The configured audiences and traits with the JSON types of their values. Checks definitions but runs none. */
  types(): Promise<readonly ComputedType[]>;
  /** Checks a definition in its engine without running it. Returns columns that nothing names. Throws as `plan` does. */
  tryDefinition(key: string): Promise<readonly string[]>;
  /** The engine's report on itself. @throws RollcallError `engine_unreachable`, `engine_failed` */
  examine(engine: string): Promise<readonly Remark[]>;
  /** The id of the store that the engine's snapshots belong to; null if none has claimed them. */
  owner(engine: string): Promise<string | null>;
  /** Takes over the engine's snapshots, unless they no longer belong to `from`. */
  adopt(engine: string, from: string | null): Promise<void>;
  /** Sends everything again: `true` for members, `false` for everyone who ever left. Throws as `run` does. */
  resync(key: string, time?: SyncTime): Promise<SyncReport>;
  /** Sends `false` for every member and forgets the audience, configured or not. */
  retire(key: string, time?: SyncTime): Promise<SyncReport>;
  /** Continues a held run. @throws RollcallError `unknown_run` */
  approve(run: string): Promise<SyncReport>;
  /** Discards a held run, or the rest of one that can't be finished. @throws RollcallError `unknown_run` */
  reject(run: string): Promise<SyncReport>;
  /** Audiences that the store knows but the configuration doesn't. */
  orphans(): Promise<readonly AudienceRecord[]>;
  /** Retired audiences whose end has not reached every destination that had them. */
  ended(): Promise<readonly AudienceRecord[]>;
  /**
   * Bodies with the current values for dead letters that are sent again, in the same order.
   *
   * @param unreachable - pass the same map for all pages of one replay
   */
  currentBodies(letters: readonly DeadChange[], unreachable?: UnreachableEngines): Promise<readonly CurrentBody[]>;
  /**
   * Removes users from all snapshots and plans, and from the engines' files.
   *
   * @param haveReturned - tells if the log has some of them again
   */
  forget(ids: ErasedIds, sources: readonly string[] | null, haveReturned: () => Promise<boolean>): Promise<void>;
  /** Makes the current configuration the newest: at the start of a long-running process, and at its reloads. */
  configured(): Promise<void>;
  /** Those of these users whom audiences of these sources know, each with the destinations notified about them. */
  told(users: readonly string[], sources: readonly string[] | null): Promise<readonly ToldUser[]>;
  /**
   * Starts the schedules. Missed ticks are caught up once.
   *
   * @param renames - if true, renamed audiences end under their former names without approval
   */
  start(renames?: boolean): Promise<void>;
  /** Stops the schedules, and runs after their current batch. The next sync continues those runs. */
  stop(): Promise<void>;
}

export function createSync(options: SyncOptions): Sync {
  const { store, clock, log, config } = options;
  const runner = new Runner(options);
  const subjects = createSubjects(store, config);
  const orders = createOrders({ store, clock, runner, subjects });
  const previews = createPreviews({ store, clock, config, runner, subjects });
  const pauses = createPauses(store, log);
  const background = createBackground({ options, runner, orders, subjects, pauses });
  const { engines, generations } = runner;
  const withEngine = engines.aside;
  const parts = { config, log, runner, orders, subjects, pauses, background };

  return {
    run: (keys, time = {}) => runAll(parts, keys, time),
    check: (keys, time) => void chosen(subjects, keys, time),
    async plan(keys, { signal, ...time } = {}) {
      const plans: SyncPlan[] = [];
      const named = subjects.named(keys);
      refuseOtherTimes(named, time);
      for (const subject of named) plans.push(await previews.plan(subject, time.now, signal));
      return plans;
    },
    tryOut: previews.tryOut,
    async types() {
      const types: ComputedType[] = [];
      for (const computation of computations(config()))
        types.push(await previews.type(configured(computation, config())));
      return types;
    },
    async tryDefinition(key) {
      const columns = [];
      for (const subject of subjects.named([key])) {
        if (subject.engine !== LIVE_ENGINE) columns.push(...(await previews.describe(subject)));
      }
      return columns.flatMap(({ key, isUnnamed }) => (isUnnamed ? key : []));
    },
    examine: engines.examine,
    owner: (engine) => engines.owned(engine, true, (ownership) => ownership.store()),
    adopt: (engine, from) => engines.owned(engine, false, (ownership) => ownership.give(store.id, from)),
    async resync(key, { now } = {}) {
      const subject = await subjects.find(key);
      refuseOtherTimes([subject], { now });
      return orders.order(subject, { action: 'resync', now });
    },
    retire: async (key, { now } = {}) => orders.order(await subjects.findWhereItLies(key), { action: 'retire', now }),
    approve: orders.approve,
    reject: orders.reject,
    ...createQueries({
      store,
      clock,
      config,
      log,
      subjects,
      look: engines.look,
      lookUp: engines.lookUp,
      ordered: orders.waiting,
    }),
    orphans: subjects.orphans,
    ended: subjects.ended,
    currentBodies: (letters, unreachable = new Map()) =>
      currentBodies({ store, clock, config, withEngine }, letters, unreachable),
    forget: (...given) => forgetUsers({ store, config, withEngine, log }, ...given),
    configured: generations.take,
    told: (users, sources) => toldUsers({ store, config, withEngine, log }, users, sources),
    async start(renames = false) {
      await background.start(renames);
      await warnOfOrphans(parts);
    },
    async stop() {
      await Promise.all([background.stop(), runner.stop()]);
    },
  };
}

interface RunParts {
  readonly config: SyncOptions['config'];
  readonly log: JobLog;
  readonly runner: Runner;
  readonly orders: Orders;
  readonly subjects: Subjects;
  readonly pauses: Pauses;
  readonly background: Background;
}

function chosen(subjects: Subjects, keys: readonly string[] | undefined, time: SyncTime): readonly Subject[] {
  const selected = subjects.selected(keys);
  refuseOtherTimes(selected, time);
  return selected;
}

/** Live audiences can only be synced as of now. */
function refuseOtherTimes(selected: readonly Subject[], { now }: SyncTime): void {
  const live = selected.filter(({ engine }) => engine === LIVE_ENGINE).map(({ key }) => key);
  if (now === undefined || live.length === 0) return;
  throw new RollcallError('bad_usage', `Live, so that no other time can be asked for: ${live.join(', ')}.`);
}

async function runAll(parts: RunParts, keys: readonly string[] | undefined, time: SyncTime): Promise<SyncReport[]> {
  const { runner, orders, subjects, pauses, background } = parts;
  const reports: SyncReport[] = [];
  const selected = chosen(subjects, keys, time);
  const sync = async (subject: Subject) => {
    if (await pauses.passesOver(subject.key, false)) return;
    reports.push(await orders.order(subject, { action: 'sync', ...time }));
  };
  // Live audiences may refer to others, which are synced first.
  for (const subject of selected) if (subject.engine !== LIVE_ENGINE) await sync(subject);
  const live = selected.filter(({ engine }) => engine === LIVE_ENGINE);
  if (live.length > 0) await background.computeLive();
  for (const subject of live) await sync(subject);
  const place = new Map(selected.map(({ key }, index) => [key, index]));
  reports.sort((a, b) => (place.get(a.key) ?? 0) - (place.get(b.key) ?? 0));
  if (runner.signal.aborted) return reports;
  if (!keys?.length) reports.push(...(await settleEnded(parts, time)));
  await warnOfOrphans(parts);
  return reports;
}

/** Sends the end of retired audiences to destinations that were away. */
async function settleEnded({ config, orders, subjects }: RunParts, { now }: SyncTime): Promise<SyncReport[]> {
  const reports: SyncReport[] = [];
  for (const record of await subjects.ended()) {
    // Without its engine nothing can be sent, but that doesn't fail every sync.
    if (!hasEngine(record.engine, config())) continue;
    reports.push(await orders.order(orphan(record), { action: 'settle', now }));
  }
  return reports.filter(({ runs, error }) => runs.length > 0 || error !== null);
}

async function warnOfOrphans({ log, subjects }: RunParts): Promise<void> {
  for (const { key } of await subjects.orphans()) {
    log.warn({ event: 'sync_orphan', key }, `${key} is no longer configured; \`rollcall retire ${key}\` ends it`);
  }
}
