import memoize from 'lodash/memoize.js';
import { type Annotations, aboutOf } from '../../src/about.ts';
import type { Config } from '../../src/config/config.ts';
import type { Clock } from '../../src/kernel/clock.ts';
import {
  type AudiencePause,
  type AudienceRecord,
  type Records,
  type Run,
  type RunState,
  STEP_LENGTH,
  type Store,
  stepOf,
} from '../../src/store/port.ts';
import { type Computation, computations, type SyncConfig } from '../audience-or-trait.ts';
import { liveSources } from '../live/definitions.ts';
import { type LiveStatus, liveStatuses } from '../live/status.ts';
import { sinceOf, standingFailure } from '../run/retry-times.ts';
import { changesMembership } from '../run/run-changes.ts';
import type { JobLog } from '../run/run-context.ts';
import { Ticks } from '../schedule/due-times.ts';
import type { WaitingOrder } from '../schedule/orders.ts';
import { nextTick } from '../schedule/schedule.ts';

const TREND = 10;
/** Runs to read, at first and at most: a few for one destination may be among them. */
const RECENT = [TREND + 2, 40] as const;
/** Milliseconds after which a due run that has not begun is overdue. */
const LATE = 2 * 60_000;
const UNFINISHED: readonly RunState[] = ['staged', 'sending', 'committed'];

export interface AudienceStatus extends Annotations {
  readonly key: string;
  readonly kind: 'audience' | 'trait';
  readonly engine: string;
  readonly source: string;
  /**
   * `new`: it has not run yet. `held`, `failed`: its last run was. `unfinished`: a run is under way, or continues with
   * the next sync. `orphaned`: no longer configured, but not retired.
   */
  readonly state: 'ok' | 'new' | 'held' | 'failed' | 'unfinished' | 'paused' | 'orphaned';
  /** Members after the last run that was done; null before the first. */
  readonly members: number | null;
  /** Members after each of the last runs that were done, or at the end of the last hours if it is live, oldest first. */
  readonly trend: readonly number[];
  readonly lastRun: Run | null;
  /** An order that waits for its turn in this process, behind other runs. */
  readonly ordered: WaitingOrder | null;
  readonly schedule: string | null;
  /** Milliseconds since 1970; null without a schedule, and while paused. */
  readonly nextRunAt: number | null;
  /**
   * A tick that was due when no run began; of several, one of the last. For a live audience, the time since which it is
   * behind. Null if nothing is overdue.
   */
  readonly overdueSince: number | null;
  /** Time and author of the pause; null if it runs, or is paused in the configuration. */
  readonly paused: AudiencePause | null;
  /** Null unless it is live. */
  readonly live: LiveStatus | null;
  readonly todo: Todo | null;
}

export type Todo =
  | { readonly do: 'decide'; readonly run: string; readonly reason: string }
  /** `run` is the last that failed; the first of the failures in a row began at `since`, in milliseconds since 1970. */
  | {
      readonly do: 'repair';
      readonly run: string;
      readonly code: string;
      readonly reason: string;
      readonly since: number;
    }
  | { readonly do: 'retire' };

interface StatusParts {
  readonly store: Store;
  readonly clock: Pick<Clock, 'now'>;
  readonly config: () => SyncConfig;
  readonly log: JobLog;
  readonly ordered: (key: string) => WaitingOrder | null;
}

/** The status of configured audiences and traits, in that order, then of orphans. */
export async function audienceStatuses(
  parts: StatusParts,
  orphans: readonly AudienceRecord[],
): Promise<readonly AudienceStatus[]> {
  const { changedAt = null } = parts.config();
  const configured = computations(parts.config());
  const [paused, live, sizes, runs] = await Promise.all([
    parts.store.pausedAudiences(),
    liveStatusesOf(parts),
    liveSizes(parts, configured),
    recentRuns(
      parts.store,
      [...configured, ...orphans].map(({ key }) => key),
    ),
  ]);
  const schedules: Schedules = {
    ...{ clock: parts.clock, changedAt, ordered: parts.ordered },
    // Hundreds may share one.
    next: memoize((computation) => nextTick(computation, parts.log), scheduleOf),
  };
  const pauses = new Map(paused.map((pause) => [pause.key, pause]));
  const runsOf = ({ key }: { readonly key: string }) => runs.get(key) ?? [];
  return [
    ...configured.map((computation) => {
      const pause = pauses.get(computation.key) ?? null;
      const asItIs = { ...computation, paused: computation.paused || pause !== null };
      const status = statusOf(schedules, computation, asItIs, runsOf(computation), pause, live);
      return status.live ? { ...status, trend: sizes.get(computation.key) ?? [] } : status;
    }),
    ...orphans.map((record) => statusOf(schedules, record, null, runsOf(record), null, null)),
  ];
}

async function liveStatusesOf({ store, clock, config }: StatusParts) {
  const sources = new Set(liveSources(config()));
  return sources.size === 0 ? null : liveStatuses(store, sources, clock.now());
}

/** Sizes of live audiences, which change between runs. */
function liveSizes({ store, clock }: StatusParts, configured: readonly Computation[]) {
  const since = stepOf(clock.now() - (TREND - 1) * STEP_LENGTH.hour, 'hour');
  return store.sizes(
    configured.flatMap(({ key, live }) => (live ? key : [])),
    'hour',
    since,
  );
}

interface Schedules extends Pick<StatusParts, 'clock' | 'ordered'>, Pick<Config, 'changedAt'> {
  /** The next time at which it is due, in milliseconds since 1970. */
  readonly next: (computation: Computation) => number | null;
}

function statusOf(
  { clock, changedAt, next, ordered }: Schedules,
  { key, kind, engine, source }: Pick<Computation, 'key' | 'kind' | 'engine' | 'source'>,
  computation: Computation | null,
  runs: readonly Run[],
  paused: AudiencePause | null,
  statuses: Awaited<ReturnType<typeof liveStatusesOf>>,
): AudienceStatus {
  const trend = runs.flatMap(({ state, members }) => (state === 'done' ? [members] : [])).slice(0, TREND);
  const last = runs.find(changesMembership) ?? null;
  const { schedule = null } = computation ?? {};
  const live = computation?.live ? (statuses?.statusOf(source, key) ?? null) : null;
  const state = stateOf(last, computation);
  const isScheduled = schedule !== null && computation !== null && !computation.paused;
  return {
    key,
    kind,
    engine,
    source,
    state,
    members: (live && statuses?.membersOf(key)) ?? trend[0] ?? null,
    trend: trend.toReversed(),
    lastRun: last,
    ordered: ordered(key),
    schedule,
    nextRunAt: isScheduled ? next(computation) : null,
    overdueSince: live
      ? !computation?.paused && (live.lag ?? 0) > LATE
        ? clock.now() - (live.lag ?? 0)
        : null
      : isScheduled
        ? overdueSince(computation, last ?? { state: 'done', startedAt: changedAt ?? clock.now() }, clock.now())
        : null,
    paused,
    live,
    todo: todoOf(key, state, runs),
    ...aboutOf(computation ?? {}),
  };
}

/** Reads as few as needed: with hundreds of audiences, reading runs takes most of the time. */
async function recentRuns(
  store: Pick<Records, 'newestRuns'>,
  keys: readonly string[],
): Promise<ReadonlyMap<string, readonly Run[]>> {
  const [few, many] = RECENT;
  const found = await store.newestRuns(keys, few);
  const isEnough = (runs: readonly Run[]) => {
    const done = runs.filter(({ state }) => state === 'done').length;
    return runs.length < few || (done >= TREND && runs.some(changesMembership));
  };
  const short = [...found].flatMap(([key, runs]) => (isEnough(runs) ? [] : [key]));
  return short.length === 0 ? found : new Map([...found, ...(await store.newestRuns(short, many))]);
}

function scheduleOf({ schedule, timezone }: Computation): string {
  return `${schedule} ${timezone}`;
}

const ticksOf = memoize(({ schedule, timezone }: Computation) => new Ticks(schedule ?? '', timezone), scheduleOf);

/**
 * The overdue tick, if any. A run may take longer than its interval, so one more tick may pass during it. An audience
 * that has not run yet is due since its configuration file was written.
 */
function overdueSince(
  computation: Computation,
  { state, startedAt }: Pick<Run, 'state' | 'startedAt'>,
  now: number,
): number | null {
  const allowed = UNFINISHED.includes(state) || state === 'held' ? 1 : 0;
  const missed = ticksOf(computation).last(startedAt, now - LATE, allowed + 2);
  return missed.length > allowed ? (missed.at(-1) ?? null) : null;
}

function stateOf(last: Run | null, computation: Computation | null): AudienceStatus['state'] {
  if (last?.state === 'held') return 'held';
  if (computation === null) return 'orphaned';
  if (computation.paused) return 'paused';
  if (last === null) return 'new';
  if (UNFINISHED.includes(last.state)) return 'unfinished';
  return last.state === 'failed' ? 'failed' : 'ok';
}

function todoOf(key: string, state: AudienceStatus['state'], runs: readonly Run[]): Todo | null {
  if (state === 'orphaned') return { do: 'retire' };
  const last = runs.find(changesMembership);
  if (last && state === 'held') return { do: 'decide', run: last.id, reason: last.reason ?? '' };
  const failure = state === 'failed' || state === 'unfinished' ? standingFailure(runs) : null;
  if (failure === null) return null;
  const { id, code, reason } = failure;
  return {
    ...{ do: 'repair', run: id, code: code ?? 'engine_failed', reason: withoutName(key, reason ?? '') },
    since: sinceOf(failure),
  };
}

/** Removes the key that errors begin with, since it is shown anyway. */
function withoutName(key: string, reason: string): string {
  return reason.startsWith(`${key}: `) ? reason.slice(key.length + 2) : reason;
}
