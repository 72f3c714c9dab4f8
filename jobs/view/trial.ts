import { audiencesIn, type Condition, singlesIn } from '../../src/definition/conditions.ts';
import type { Clock } from '../../src/kernel/clock.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import type { Store } from '../../src/store/port.ts';
import { type Computation, computations, type SyncConfig } from '../audience-or-trait.ts';
import { countedDefinitionOf, definitionSql, withModels } from '../definition-sql.ts';
import { asRollcallError } from '../engine-errors.ts';
import { type Evidence, readEvidence } from '../engines/definitions/evidence.ts';
import type { CountedDefinition } from '../engines/definitions/funnel.ts';
import type { Compared, Comparison, Engine, Preview, StageRequest } from '../engines/port.ts';
import { singleStatement } from '../engines/sql/statement.ts';
import type { OpenEngines, Place } from '../open-engines.ts';
import { configured, type Subjects } from '../run/audience-subjects.ts';
import { whyHeld } from '../run/hold-reason.ts';
import { withinTime } from '../time-limit.ts';
import { type FunnelStep, funnelOf } from './plan.ts';

/** The parts of a trial that take a query of their own. */
export const TRIAL_PARTS = ['people', 'overlap', 'past'] as const;
type TrialPart = (typeof TRIAL_PARTS)[number];

export interface TrialRequest {
  readonly draft: Computation;
  /** The audience or trait whose place it takes; null for a new one. */
  readonly edits: string | null;
  readonly parts: readonly TrialPart[];
  readonly signal?: AbortSignal | undefined;
}

/** The outcome of a definition that is in no configuration. Parts that were not asked for are null. */
export interface Trial {
  /** With `$now` in it. */
  readonly sql: string;
  /** The error of the definition's own SQL; null if it ran. */
  readonly failure: { readonly code: string; readonly message: string } | null;
  readonly people: TrialPeople | null;
  /** The difference to what it edits, as receivers know that. */
  readonly difference: TrialDifference | null;
  readonly overlap: readonly Overlap[] | null;
  /** Members at past instants, oldest first. */
  readonly past: readonly { readonly at: number; readonly members: number }[] | null;
  /** The reason that there is no past. */
  readonly pastless: string | null;
}

interface TrialPeople {
  readonly members: number;
  readonly invalid: number;
  readonly duplicates: number;
  readonly columns: readonly string[];
  readonly unnamed: readonly string[];
  readonly funnel: readonly FunnelStep[] | null;
  readonly sample: readonly {
    readonly userId: string;
    /** JSON text of a trait's values, or of an audience's columns. */
    readonly value: string | null;
    readonly why: readonly Evidence[];
  }[];
}

interface TrialDifference {
  readonly key: string;
  readonly before: number;
  readonly entered: number;
  readonly exited: number;
  readonly changed: number;
  readonly sample: Compared['sample'];
  /** The reason why a guard would hold it. */
  readonly held: string | null;
}

interface Overlap {
  readonly key: string;
  readonly name: string;
  /** Null if it was not compared. */
  readonly members: number | null;
  readonly both: number | null;
  /** The reason that it was not. */
  readonly because: string | null;
}

/** Milliseconds that a trial may take. */
const TRIAL_PATIENCE = 30_000;
const SAMPLE = 20;
/** The most members of other engines that are read to be compared. */
const MOST_READ = 1_000_000;
const DAY = 86_400_000;
const PAST_DAYS = 30;
/** Milliseconds after which no further day is begun. */
const PAST_PATIENCE = 10_000;

/** Errors of the author's own text, which are shown next to it. */
const ITS_OWN: ReadonlySet<string> = new Set([
  ...['sql_failed', 'sql_timeout', 'column_missing', 'column_repeated', 'column_type', 'source_incomplete'],
  ...['types_guessed', 'file_differs', 'engine_failed'],
]);

interface TrialParts {
  readonly store: Pick<Store, 'events'>;
  readonly clock: Clock;
  readonly config: () => SyncConfig;
  readonly engines: Pick<OpenEngines, 'plan' | 'look'>;
  readonly subjects: Subjects;
}

/** Runs a definition as it would be if it were configured, without leaving a trace. */
export async function tryOut(parts: TrialParts, request: TrialRequest): Promise<Trial> {
  const { clock, engines } = parts;
  const { draft, edits, signal } = request;
  const config = await withModels(withDraft(parts.config(), draft, edits), draft);
  const counted = countedDefinitionOf(draft, config);
  const sql = definitionSql(draft, config);
  const place = placeOf(draft, config);
  const empty = { people: null, difference: null, overlap: null, past: null, pastless: null };
  const shown = withoutValues(sql, config);
  const work = (engine: Engine, until: AbortSignal) =>
    withinTime(clock, TRIAL_PATIENCE, until, (limited) =>
      look({ ...parts, config, request, counted, sql, place }, engine, limited),
    );
  try {
    return { sql: singleStatement(shown), failure: null, ...empty, ...(await engines.plan(place, work, signal)) };
  } catch (thrown) {
    signal?.throwIfAborted();
    const { code, message } = asRollcallError(thrown);
    if (!ITS_OWN.has(code)) throw thrown;
    return { ...empty, sql: shown, failure: { code, message: message.replace(`${draft.key}: `, '') } };
  }
}

/** The configuration as it would be with the draft. */
function withDraft(config: SyncConfig, draft: Computation, edits: string | null): SyncConfig {
  const others = <C extends Computation>(all: readonly C[]) =>
    all.filter(({ key }) => key !== edits && key !== draft.key);
  const [audiences, traits] = [others(config.audiences), others(config.traits)];
  return draft.kind === 'audience'
    ? { ...config, audiences: [...audiences, draft], traits }
    : { ...config, audiences, traits: [...traits, draft] };
}

/**
 * SQL runs in a session that only reads. Compiled definitions run in the engine itself, as a plan does.
 *
 * @throws RollcallError `bad_usage` for SQL of an engine that has no such session
 */
function placeOf({ engine, sql }: Computation, { engines }: SyncConfig): Place {
  const { type, snapshots } = engines[engine] ?? { type: 'duckdb' };
  if (sql === undefined) return { engine };
  if (type === 'duckdb') return { engine, confined: true };
  if (snapshots !== undefined) return { engine: snapshots, reads: engine };
  if (type === 'postgres') return { engine, reads: engine };
  throw new RollcallError('bad_usage', `SQL for ${engine} (${type}) can't be tried here: use rollcall plan.`);
}

interface Trying extends Omit<TrialParts, 'config'> {
  /** With the draft. */
  readonly config: SyncConfig;
  readonly request: TrialRequest;
  readonly counted: CountedDefinition | null;
  readonly sql: string;
  readonly place: Place;
}

async function look(trying: Trying, engine: Engine, signal: AbortSignal): Promise<Partial<Trial>> {
  const { request, counted, clock } = trying;
  const parts = request.parts.filter((part) => part !== 'overlap' || request.draft.kind === 'audience');
  const now = clock.now();
  const past = parts.includes('past') ? await pastOf(trying, engine, now, signal) : {};
  if (!parts.includes('people') && !parts.includes('overlap')) return past;
  const edited = parts.includes('people') ? await editedMembers(trying, signal) : [];
  const { compare, skipped } = parts.includes('overlap')
    ? await othersOf(trying, signal)
    : { compare: [], skipped: [] };
  const funnel = counted && { funnel: { ...counted.funnel, evidence: counted.evidence } };
  const given = { ...stageRequest(trying, now, signal), ...funnel, compare: [...edited, ...compare] };
  const preview = await engine.preview(given, SAMPLE);
  const compared = preview.compared ?? [];
  return {
    ...past,
    ...(parts.includes('people') && {
      people: peopleOf(preview, counted),
      difference: edited.length === 0 ? null : differenceOf(trying, preview, now),
    }),
    ...(parts.includes('overlap') && {
      overlap: [
        ...compared.slice(edited.length).map(({ key, members, both }) => ({ key, members, both, because: null })),
        ...skipped,
      ].map((each) => ({ ...each, name: nameIn(trying.config, each.key) })),
    }),
  };
}

function stageRequest({ request: { draft }, config, sql }: Trying, asOf: number, signal: AbortSignal): StageRequest {
  const { definition } = configured(draft, config);
  const { kind, allowPlaceholders, expect } = draft;
  return {
    ...{ plan: 'trial', key: draft.key, kind, action: 'sync', sql, asOf, toVersion: 1, leavers: false, leasedAt: 0 },
    ...{ freshness: expect.freshness?.column, allowPlaceholders, with: definition?.with, signal },
  };
}

function peopleOf(preview: Preview, counted: CountedDefinition | null): TrialPeople {
  const { members, invalid, duplicates, columns, unnamed = [], sample } = preview;
  const why = readEvidence(preview.evidence ?? []);
  return {
    ...{ members, invalid, duplicates, columns, unnamed },
    funnel: counted && preview.funnel ? funnelOf(counted, preview.funnel) : null,
    sample: sample.userIds.map((userId, row) => ({
      userId,
      value: sample.values[row] ?? null,
      why: why.get(userId) ?? [],
    })),
  };
}

/** The members that receivers know of the audience or trait that is edited. */
async function editedMembers(trying: Trying, signal: AbortSignal): Promise<readonly Comparison[]> {
  const { edits, draft } = trying.request;
  const key = edits ?? draft.key;
  const before = await trying.subjects.findWhereItLies(key).catch(() => null);
  if (before === null || before.kind !== draft.kind) return [];
  return [comparison(trying, key, before.engine, SAMPLE, signal)];
}

function comparison(
  { engines, place }: Trying,
  key: string,
  engine: string,
  sampleSize: number,
  signal: AbortSignal,
): Comparison {
  if (engine === place.engine && !place.confined) return { key, members: null, sampleSize };
  return {
    ...{ key, sampleSize },
    members: (each) =>
      engines.look(
        engine,
        async (opened) => {
          for await (const batch of opened.members(key)) await each(batch);
        },
        signal,
      ),
  };
}

function differenceOf({ request: { draft } }: Trying, preview: Preview, now: number): TrialDifference | null {
  const [compared] = preview.compared ?? [];
  if (!compared) return null;
  const { key, members: before, both, changed, sample } = compared;
  const [entered, exited] = [preview.members - both, before - both];
  const counts = { ...preview, before, entered, exited, changed };
  return { key, before, entered, exited, changed, sample, held: whyHeld(counts, counts, draft, now) };
}

/** Other audiences, and those that are too large or whose engine does not answer. */
async function othersOf(trying: Trying, signal: AbortSignal) {
  const { config, request, subjects, engines, place } = trying;
  const compare: Comparison[] = [];
  const skipped: { key: string; members: number | null; both: null; because: string }[] = [];
  let left = MOST_READ;
  for (const { key } of config.audiences) {
    if (key === request.draft.key) continue;
    try {
      const { engine } = await subjects.findWhereItLies(key);
      const isHere = engine === place.engine && !place.confined;
      const { members } = await engines.look(engine, (opened) => opened.snapshot(key), signal);
      if (!isHere && members > left) {
        skipped.push({ key, members, both: null, because: 'It is too large to be compared here.' });
        continue;
      }
      if (!isHere) left -= members;
      compare.push(comparison(trying, key, engine, 0, signal));
    } catch (thrown) {
      signal.throwIfAborted();
      skipped.push({ key, members: null, both: null, because: asRollcallError(thrown).message });
    }
  }
  return { compare, skipped };
}

const nameIn = (config: SyncConfig, key: string) => computations(config).find((each) => each.key === key)?.name ?? key;

/** Sizes at the same time of past days, computed from the log as it is today. */
async function pastOf(
  trying: Trying,
  engine: Engine,
  now: number,
  signal: AbortSignal,
): Promise<Pick<Trial, 'past' | 'pastless'>> {
  const { request, counted, config, clock, store } = trying;
  const { draft } = request;
  const when = draft.kind === 'audience' ? draft.when : undefined;
  if (!counted || !when) return { past: null, pastless: 'Only a short definition of an audience says what it was.' };
  const present = ofPresent(when, config);
  if (present !== null) return { past: null, pastless: present };
  const firstDay = await store.events.firstDay();
  const first = Math.max(firstDay * DAY, now - (config.eventLog?.keep ?? 0));
  const days = Array.from({ length: PAST_DAYS + 1 }, (_, day) => day).filter((day) => now - day * DAY >= first);
  const begun = clock.monotonic();
  const past: { at: number; members: number }[] = [];
  for (const day of days.toSorted(coarseFirst)) {
    if (clock.monotonic() - begun > PAST_PATIENCE) break;
    const at = now - day * DAY;
    const { funnel } = counted;
    const given = { ...stageRequest(trying, at, signal), sql: funnel.people, funnel, with: undefined, compare: [] };
    const again = past.length > 0;
    past.push({ at, members: (await engine.preview({ ...given, again }, 0)).members });
  }
  return { past: past.toSorted((one, other) => one.at - other.at), pastless: null };
}

/** Today, then days far apart, so that a past that takes too long is a coarser one. */
function coarseFirst(one: number, other: number): number {
  const rank = (day: number) => (day === 0 ? -1 : Math.clz32(day & -day));
  return rank(one) - rank(other);
}

/** The reason that a condition says nothing about the past: it refers to what is known of the present only. */
function ofPresent(when: Condition, config: SyncConfig, seen: readonly string[] = []): string | null {
  for (const { single } of singlesIn(when, [])) {
    if ('computed' in single && !config.traits.find(({ key }) => key === single.computed.key)?.live)
      return `${single.computed.key} is known as it was last computed only.`;
  }
  for (const key of audiencesIn(when)) {
    const other = config.audiences.find((audience) => audience.key === key);
    if (!other?.when) return `${key} is defined by SQL, which says nothing of the past.`;
    const reason = seen.includes(key) ? null : ofPresent(other.when, config, [...seen, key]);
    if (reason !== null) return reason;
  }
  return null;
}

/** Shows variables in place of their values. */
function withoutValues(sql: string, { hiddenValues = new Map() }: SyncConfig): string {
  const longest = [...hiddenValues].toSorted(([one], [other]) => other.length - one.length);
  return longest.reduce((text, [value, name]) => text.replaceAll(value, `\${${name}}`), sql);
}
