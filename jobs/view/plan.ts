import sumBy from 'lodash/sumBy.js';
import type { Destination } from '../../src/destination.ts';
import type { Clock } from '../../src/kernel/clock.ts';
import { WRITTEN_PLACEHOLDERS } from '../../src/kernel/placeholders.ts';
import type { ReasonCounts } from '../../src/membership-change.ts';
import type { AudiencePause, AudienceRecord, Records, RunCounts, RunState } from '../../src/store/port.ts';
import { connectedTo, nameOf, reachedBy, type SyncConfig } from '../audience-or-trait.ts';
import type { CountedDefinition } from '../engines/definitions/funnel.ts';
import type { ChangeBatch, ComputedKind, Engine, Preview, StageRequest } from '../engines/port.ts';
import { type Explained, explainer, reasonsOf } from '../run/explanations.ts';
import { asRename } from '../run/guard.ts';
import { columnsChanged, whyHeld } from '../run/hold-reason.ts';
import { bodyBuilder } from '../run/identify-body.ts';
import { type Debt, debtsOf, skipsPast } from '../run/owed-membership.ts';
import { newRecord, type Subject } from '../run/run-context.ts';
import { isEdited, isFirst, reasonOf, scopeOf } from '../run/run-record.ts';
import { missing, moved } from '../run/snapshot-version.ts';
import { isKnown } from '../snapshot-owner.ts';

const SAMPLE = 2;
/** Entrants that are checked for excluded users. */
const LOOKED_AT = 20_000;
const RECENT_CALLS = 10_000;
const RECENT_RUNS = 100;
/** Fewer calls say nothing about a rate. */
const ENOUGH_CALLS = 100;

export interface SyncPlan extends RunCounts {
  readonly key: string;
  readonly kind: 'audience' | 'trait';
  readonly first: boolean;
  readonly before: number;
  /** Members who leave because their ids mean nobody. */
  readonly placeholders: readonly string[];
  /** Messages to `destinations`. */
  readonly messages: number;
  readonly destinations: readonly string[];
  readonly newcomers: readonly string[];
  /** Those of `destinations` that skip past members, and get nothing of a first sync. */
  readonly skipped: readonly string[];
  /** Messages that single destinations get in addition. */
  readonly owed: readonly Owed[];
  /** Those of `newcomers` that had it before and missed changes. They get these, or everything if they are unknown. */
  readonly returning: readonly string[];
  /** Destinations whose filters now exclude it. They get its end for each member. */
  readonly withdrawn: readonly string[];
  /** Destinations that are connected to the source, but whose filters exclude it. */
  readonly filtered: readonly string[];
  /** Destinations that missed changes and are out of reach: they get them once they are back. */
  readonly away: readonly string[];
  /** POSTs, one per message and URL, or per full batch if a URL takes batches. Includes those of `renamedFrom`. */
  readonly calls: number;
  /** Milliseconds that they take at the rate of an earlier run; null if the attempt log has none. */
  readonly estimatedMs: number | null;
  /** The reason why a guard or an expectation would hold it. */
  readonly held: string | null;
  /** The audience that this one was renamed from; it would be retired, and `retired` members sent `false`. */
  readonly renamedFrom: string | null;
  readonly retired: number;
  /** The pause set by a person. Syncs skip it until it is resumed. */
  readonly paused: AudiencePause | null;
  /** Runs that a sync finishes or waits for first; `reason` is why one is held. */
  readonly unfinished: readonly {
    readonly run: string;
    readonly state: RunState;
    readonly reason: string | null;
  }[];
  /** Columns of an audience's result that nothing names. */
  readonly unnamed: readonly string[];
  /** Numbers of changes by reason. */
  readonly reasons: ReasonCounts;
  /** The number of people who pass each condition of a short definition; null for SQL. */
  readonly funnel: readonly FunnelStep[] | null;
  /** Bodies as they would be sent. */
  readonly sample: readonly string[];
}

export interface FunnelStep {
  readonly path: string;
  readonly condition: string;
  /** Null if that would need a look at everybody in the log. */
  readonly people: number | null;
  /** The number left of those who pass all conditions above; null for a part of a condition. */
  readonly left: number | null;
}

export interface Owed {
  readonly destination: string;
  readonly reason: 'backfill' | 'returning' | 'withdrawn';
  readonly messages: number;
  /** True if history shows what it has, so that it gets only what is different. */
  readonly isDifference: boolean;
}

interface PlanRequest {
  readonly store: Pick<
    Records,
    'audience' | 'runs' | 'attempts' | 'pausedAudiences' | 'deletions' | 'excluded' | 'historySince'
  >;
  readonly engine: Engine;
  readonly clock: Clock;
  readonly subject: Subject;
  readonly former: Subject | null;
  /** Null for SQL. */
  readonly counted: CountedDefinition | null;
  readonly asOf: number;
  readonly config: () => SyncConfig;
  readonly signal: AbortSignal;
}

/**
 * Runs the definition and compares it with the snapshot, without leaving a trace.
 *
 * @throws RollcallError `snapshot_lost`, `snapshot_moved`, `engine_changed`
 */
export async function planOf(request: PlanRequest): Promise<SyncPlan> {
  const { store, engine, subject, asOf } = request;
  const { key, kind, definition } = subject;
  const record = await store.audience(key);
  const { settled, suppresses } = await store.deletions(null);
  const funnel = request.counted?.funnel;
  const asked = { ...stageRequest(request, record), ...(funnel && { funnel }) };
  const returned = await engine.preview(asked, suppresses ? LOOKED_AT : SAMPLE);
  if (record && returned.fromVersion < record.version) throw missing(request, record);
  const known = record ?? newRecord(subject);
  // Another process may have run in the meantime.
  if (returned.fromVersion > known.version && !(await isKnown(store, key, (each) => each >= returned.fromVersion)))
    throw moved(known, returned.fromVersion);
  const preview = await withoutExcluded(request, returned, settled);
  const retired = request.former ? (await engine.snapshot(request.former.key)).members : 0;
  const asFormer = (counts: Preview) => (request.former ? asRename(counts, retired) : counts);
  // Live audiences were judged by their engine.
  const heldBy = returned.frozen === undefined ? whyHeld : () => returned.frozen ?? null;
  const { posts, ...reach } = await reachOf(request, preview, known, retired);
  const rate = await measuredRate(request);
  const { before, members, entered, exited, changed, invalid, duplicates, fromVersion } = preview;
  const first = isFirst(known);
  const edited = isEdited(subject, known);
  const changeReason = request.former ? 'renamed' : reasonOf('sync', known, edited, {});
  const run: Explained = { key, kind, first, asOf, isEdited: edited, changeReason, fromVersion };
  return {
    ...{ key, kind, first },
    ...{ before, members, entered, exited, changed, invalid, duplicates },
    placeholders: await leavingPlaceholders(request),
    messages: preview.total,
    ...reach,
    calls: sumBy(posts, ({ messages, size }) => Math.ceil(messages / size)),
    // The attempt log has one entry per message, also for batches.
    estimatedMs: rate === null ? null : Math.ceil(sumBy(posts, 'messages') / rate),
    held: definition
      ? (columnsChanged(run, preview.columns, known) ?? heldBy(asFormer(returned), asFormer(preview), definition, asOf))
      : null,
    renamedFrom: request.former?.key ?? null,
    retired,
    paused: (await store.pausedAudiences()).find((pause) => pause.key === key) ?? null,
    unfinished: (await store.runs({ key, states: ['staged', 'held', 'sending', 'committed'], limit: 10 })).map(
      ({ id, state, reason }) => ({ run: id, state, reason }),
    ),
    unnamed: preview.unnamed ?? [],
    reasons: reasonsOf(run, preview),
    funnel: preview.funnel && request.counted ? funnelOf(request.counted, preview.funnel) : null,
    sample: await sampleBodies(request, preview, record, run),
  };
}

export function funnelOf({ lines }: CountedDefinition, counts: readonly number[]): readonly FunnelStep[] {
  const countAt = (place: number | null) => (place === null ? null : (counts[place] ?? null));
  return lines.map((line) => ({ ...line, people: countAt(line.people), left: countAt(line.left) }));
}

/** Members of older snapshots: the forms that programs write most. */
async function leavingPlaceholders({ engine, subject: { key, definition } }: PlanRequest): Promise<readonly string[]> {
  if (!definition || definition.allowPlaceholders) return [];
  const known = await engine.lookup(key, WRITTEN_PLACEHOLDERS);
  return [...known].flatMap(([user, { present }]) => (present ? user : []));
}

interface Posts {
  readonly messages: number;
  /** Messages in one request at most. */
  readonly size: number;
}

/** The destinations that would be notified, and what would be posted to them. */
async function reachOf(
  request: PlanRequest,
  preview: Preview,
  known: AudienceRecord,
  retired: number,
): Promise<
  Pick<
    SyncPlan,
    'destinations' | 'newcomers' | 'skipped' | 'owed' | 'returning' | 'withdrawn' | 'filtered' | 'away'
  > & {
    readonly posts: readonly Posts[];
  }
> {
  const { config, subject, store } = request;
  const all = config().destinations;
  const destinations = scopeOf('sync', known, subject, all);
  const newcomers = connectedTo(subject, all).filter((name) => !destinations.includes(name));
  const owed: Owed[] = [];
  for (const debt of debtsOf(known, subject.source, all, await store.historySince())) {
    if (known.endedAt === null) owed.push(await owedTo(request, debt, preview, known));
  }
  for (const name of newcomers.filter((name) => !owed.some(({ destination }) => destination === name))) {
    owed.push({ destination: name, reason: 'backfill', messages: preview.members, isDifference: false });
  }
  const of = (...reasons: Owed['reason'][]) =>
    owed.filter(({ reason }) => reasons.includes(reason)).map(({ destination }) => destination);
  const reached = reachedBy(subject.source, all).map(({ name }) => name);
  const skipping = all.filter(skipsPast).map(({ name }) => name);
  const skipped = isFirst(known) ? destinations.filter((name) => skipping.includes(name)) : [];
  const told = destinations.filter((name) => !skipped.includes(name));
  return {
    ...{ destinations, newcomers, skipped, owed },
    returning: of('returning'),
    withdrawn: of('withdrawn'),
    filtered: filteredOut(subject, all),
    away: [...known.destinations, ...known.lapsed].filter((name) => !reached.includes(name)),
    posts: [
      ...postsTo(told, all, preview.total + retired),
      ...owed.flatMap(({ destination, messages }) => postsTo([destination], all, messages)),
    ],
  };
}

/** Messages that a destination would get in addition, before the changes of the sync or after them. */
async function owedTo(
  request: PlanRequest,
  { destination, action, isReturn, known, skips }: Debt,
  preview: Preview,
  record: AudienceRecord,
): Promise<Owed> {
  const isEnd = action === 'withdraw';
  const reason = isEnd ? 'withdrawn' : isReturn ? 'returning' : 'backfill';
  const owed = { destination, reason, isDifference: known !== null } as const;
  if (!isEnd && !isReturn) return { ...owed, messages: preview.members };
  // The difference to what the sync would make of the membership.
  const asked =
    known && !isEnd ? { action: 'sync' as const } : { action, leavers: isReturn, onlyLeavers: skips && !isEnd };
  const { total } = await request.engine.preview({ ...stageRequest(request, record), ...asked, known }, 0);
  return { ...owed, messages: known || isEnd ? total : total + (skips ? preview.exited : preview.entered) };
}

function filteredOut(subject: Subject, all: readonly Destination[]): readonly string[] {
  const connected = connectedTo(subject, all);
  const isOut = ({ name, enabled, sources }: Destination) =>
    enabled && sources.includes(subject.source) && !connected.includes(name);
  return all.filter(isOut).map(({ name }) => name);
}

function stageRequest({ clock, subject, asOf, signal }: PlanRequest, record: AudienceRecord | null): StageRequest {
  const { key, kind, definition } = subject;
  return {
    plan: `plan-${clock.token(4)}`,
    key,
    kind,
    action: 'sync',
    sql: definition?.sql ?? '',
    asOf,
    toVersion: (record?.version ?? 0) + 1,
    leavers: false,
    leasedAt: clock.now(),
    freshness: definition?.expect.freshness?.column,
    allowPlaceholders: definition?.allowPlaceholders,
    with: definition?.with,
    signal,
  };
}

function postsTo(names: readonly string[], destinations: readonly Destination[], messages: number): readonly Posts[] {
  const named = destinations.filter(({ name }) => names.includes(name));
  return named.flatMap(({ endpoints }) => endpoints.map(({ batch }) => ({ messages, size: batch?.size ?? 1 })));
}

/**
 * Attempts per millisecond, including waits for retries and slow endpoints, of the run that has the most attempts in
 * the newest part of the attempt log.
 */
async function measuredRate({ store }: PlanRequest): Promise<number | null> {
  const calls = new Map<string, { count: number; start: number; end: number }>();
  for (const { messageId, at, ms } of await store.attempts({ limit: RECENT_CALLS })) {
    const run = messageId.slice(0, messageId.indexOf(':'));
    const seen = calls.get(run) ?? { count: 0, start: at, end: at };
    calls.set(run, { count: seen.count + 1, start: Math.min(seen.start, at), end: Math.max(seen.end, at + ms) });
  }
  const runs = new Set((await store.runs({ limit: RECENT_RUNS })).map(({ id }) => id));
  const measured = [...calls].filter(([run, { count }]) => runs.has(run) && count >= ENOUGH_CALLS);
  const largest = measured.map(([, seen]) => seen).sort((a, b) => b.count - a.count)[0];
  return largest ? largest.count / Math.max(1, largest.end - largest.start) : null;
}

/** Leaves out excluded users, as far as the sample has them. They are never members, so they can only enter. */
async function withoutExcluded({ store, subject }: PlanRequest, preview: Preview, settled: number): Promise<Preview> {
  const { userIds, present } = preview.sample;
  const out = new Set(await store.excluded(userIds, subject.source, settled));
  const entering = userIds.filter((user, index) => out.has(user) && present[index]).length;
  return {
    ...preview,
    members: preview.members - entering,
    entered: preview.entered - entering,
    total: preview.total - entering,
    sample: fewOf(preview.sample, subject.kind, out),
  };
}

/** A few rows of each kind, without these users. */
function fewOf(
  { positions, userIds, present, was, values, origins }: ChangeBatch,
  kind: ComputedKind,
  out: ReadonlySet<string>,
): ChangeBatch {
  // Members of a trait have entered or changed.
  const room = { present: kind === 'trait' ? 2 * SAMPLE : SAMPLE, gone: SAMPLE };
  const places = userIds.flatMap((user, index) => {
    if (out.has(user)) return [];
    room[present[index] ? 'present' : 'gone'] -= 1;
    return room[present[index] ? 'present' : 'gone'] < 0 ? [] : index;
  });
  const pick = <T>(column: readonly T[]) => places.map((index) => column[index] as T);
  return {
    ...{ positions: pick(positions), userIds: pick(userIds), present: pick(present), was: pick(was) },
    ...{ values: pick(values), ...(origins && { origins: pick(origins) }) },
  };
}

async function sampleBodies(
  { subject, engine, store, config, asOf: at }: PlanRequest,
  { sample, columns }: Preview,
  record: AudienceRecord | null,
  run: Explained,
): Promise<readonly string[]> {
  const { key, kind } = subject;
  const removed = (record?.columns ?? []).filter((name) => !columns.includes(name));
  const body = bodyBuilder({ key, name: nameOf(key, config()), kind, columns, removed, at, now: () => at });
  const sequence = Math.max(record?.sequence ?? 0, at * 1000);
  const explanation = await explainer({ engine, store }, run)(sample);
  return sample.userIds.map((userId, index) =>
    body('preview', {
      ...explanation(index),
      ...{ userId, present: sample.present[index] as boolean, value: sample.values[index] ?? null },
      sequence: sequence + index + 1,
    }),
  );
}
