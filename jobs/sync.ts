import { RollcallError } from '../src/kernel/errors.ts';
import type { Remark } from '../src/kernel/remark.ts';
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
import { type ComputedType, createLooks } from './view/previews.ts';
import { createReading, type Reading } from './view/queries.ts';

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
   * @throws RollcallError `unknown_audience`; `bad_usage` for another time where one is live
   */
  run(keys?: readonly string[], time?: SyncTime): Promise<readonly SyncReport[]>;
  /** Throws as `run` does, at once, and runs nothing. */
  check(keys: readonly string[], time: SyncTime): void;
  /** The changes that `run` would send, or would if these were not paused; writes nothing. Throws as `run` does. */
  plan(keys?: readonly string[], time?: SyncTime): Promise<readonly SyncPlan[]>;
  /** The audiences and traits that are configured, with what their values are in JSON; checks definitions, runs none. */
  types(): Promise<readonly ComputedType[]>;
  /** The remarks of an engine on itself. @throws RollcallError `engine_unreachable`, `engine_failed` */
  examine(engine: string): Promise<readonly Remark[]>;
  /** Sends everything again: `true` to members, `false` to everyone who ever left. Throws as `run` does. */
  resync(key: string, time?: SyncTime): Promise<SyncReport>;
  /** Sends `false` to every member and forgets the audience, in the configuration or not. */
  retire(key: string, time?: SyncTime): Promise<SyncReport>;
  /** Lets a held run go on. @throws RollcallError `unknown_run` */
  approve(run: string): Promise<SyncReport>;
  /** Throws a held run away, or the rest of one that can't be finished. @throws RollcallError `unknown_run` */
  reject(run: string): Promise<SyncReport>;
  /** Audiences that the store knows and the configuration does not. */
  orphans(): Promise<readonly AudienceRecord[]>;
  /** Audiences that were retired, while some destination that had one does not know. */
  ended(): Promise<readonly AudienceRecord[]>;
  /**
   * The bodies that tell the values of now, for dead letters that are sent again, in their order.
   *
   * @param unreachable - the same for all pages of one replay
   */
  currentBodies(letters: readonly DeadChange[], unreachable?: UnreachableEngines): Promise<readonly CurrentBody[]>;
  /** Takes users out of all snapshots and plans, and out of the engines' files. */
  forget(users: readonly string[], sources: readonly string[] | null): Promise<void>;
  /** Says that the configuration of now counts: at the start of a process that is there to stay, and at its reloads. */
  configured(): Promise<void>;
  /** Users among these whom the audiences of these sources know, and the destinations that heard of them. */
  told(users: readonly string[], sources: readonly string[] | null): Promise<readonly ToldUser[]>;
  /**
   * Runs the schedules; missed ticks are caught up once.
   *
   * @param renames - whether renamed audiences end under their former names without being held for a person
   */
  start(renames?: boolean): Promise<void>;
  /** Ends the schedules and, between two batches, the runs; the next sync goes on with them. */
  stop(): Promise<void>;
}

export function createSync(options: SyncOptions): Sync {
  const { store, clock, log, config } = options;
  const runner = new Runner(options);
  const subjects = createSubjects(store, config);
  const orders = createOrders({ store, clock, runner, subjects });
  const looks = createLooks({ store, clock, config, runner, subjects });
  const pauses = createPauses(store, log);
  const background = createBackground({ options, runner, orders, subjects, pauses });
  const { withEngine, generations } = runner;
  const parts = { config, log, runner, orders, subjects, pauses, background };

  return {
    run: (keys, time = {}) => runAll(parts, keys, time),
    check: (keys, time) => void chosen(subjects, keys, time),
    async plan(keys, time = {}) {
      const plans: SyncPlan[] = [];
      const named = subjects.named(keys);
      refuseOtherTimes(named, time);
      for (const subject of named) plans.push(await looks.plan(subject, time.now));
      return plans;
    },
    async types() {
      const types: ComputedType[] = [];
      for (const computation of computations(config())) types.push(await looks.type(configured(computation, config())));
      return types;
    },
    examine: runner.examine,
    async resync(key, { now } = {}) {
      const subject = await subjects.find(key);
      refuseOtherTimes([subject], { now });
      return orders.order(subject, { action: 'resync', now });
    },
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

/** A live audience has no other time than now. */
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
  // Live ones may name others: those come first.
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

/** Tells destinations that were away of audiences that were retired; reports what it did. */
async function settleEnded({ config, orders, subjects }: RunParts, { now }: SyncTime): Promise<SyncReport[]> {
  const reports: SyncReport[] = [];
  for (const record of await subjects.ended()) {
    // Without its engine nothing can be sent; it is no failure of each sync.
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
