import type { ChangeReason } from '../../src/membership-change.ts';
import type { AttemptRecord, DeadLetter, Records, Run } from '../../src/store/port.ts';
import { conflictKeys, type SyncConfig } from '../audience-or-trait.ts';
import type { Cause, Engine, Interval, Standing, UserInSnapshot } from '../engines/port.ts';
import { liveRun } from '../live/definitions.ts';
import { changesMembership } from '../run/run-changes.ts';
import type { Subject } from '../run/run-context.ts';
import { missing } from '../run/snapshot-version.ts';
import type { Absence, ConditionAnswer } from './absence.ts';
import type { StepTaken } from './steps.ts';

const RECENT = 1_000;
/** More than one run a minute makes in the time for which runs are kept. */
const ALL_RUNS = 200_000;

export interface Story {
  readonly key: string;
  readonly user: string;
  /** Milliseconds since 1970, for a story as of a time in the past. */
  readonly asOf: number | null;
  /** Null if it is no longer known. */
  readonly member: boolean | null;
  /** JSON text of the traits object (traits only). */
  readonly value: string | null;
  /** The run that set this state; null if the user was never in, or the run is no longer known. */
  readonly since: Run | null;
  /** The user's changes and resends, oldest first. */
  readonly changes: readonly StoryChange[];
  /** Why the user is not in it; null for members, and where nothing is known. */
  readonly absence?: Absence | null;
  /** The conditions of a short definition, as far as its engine answers. */
  readonly conditions?: readonly ConditionAnswer[];
  /** The steps of the sequences in its definition, as far as the user came. */
  readonly steps?: readonly StepTaken[];
  /** Runs of this audience that are not done, whose changes are still to come. */
  readonly unfinished: readonly Run[];
  /** Delivery attempts of its messages, newest last, as far as the attempt log reaches. */
  readonly attempts: readonly AttemptRecord[];
  readonly deadLetters: readonly DeadLetter[];
}

export interface StoryChange {
  readonly change: 'entered' | 'left' | 'changed' | 'sent again';
  /** As receivers are told it (docs/wire.md); null if that is not known. */
  readonly reason: ChangeReason | null;
  /** Milliseconds since 1970. */
  readonly changedAt: number | null;
  /** JSON text of the traits object that the user had from then on (traits only). */
  readonly value: string | null;
  /** The run that made the change; null if none did, or the run is no longer kept. */
  readonly run: Run | null;
  /** The event or moment that caused it, for a live audience, also if a run sent it after a hold. */
  readonly cause: Cause | null;
  readonly told: readonly ToldDestination[];
}

export interface ToldDestination {
  readonly destination: string;
  /** The attempt that reached it, or else the last one; null if none is logged. */
  readonly attempt: AttemptRecord | null;
  readonly deadLetter: DeadLetter | null;
}

export interface StoryParts {
  readonly store: Pick<Records, 'audience' | 'runs' | 'attempts' | 'deadLetters'>;
  readonly engine: Engine;
  readonly subject: Subject;
  readonly config: () => SyncConfig;
  /** The engine's answer, if it was asked before. */
  readonly found?: UserInSnapshot | undefined;
}

/** An engine's answer about one user. */
interface Known {
  readonly standing: Standing | undefined;
  readonly past: readonly Interval[];
  readonly causes: readonly Cause[];
}

/**
 * @param lastOnly - true if runs of earlier changes are not asked for; not for a time in the past
 * @throws RollcallError `snapshot_lost`, `engine_changed`
 */
export async function tellStory(
  parts: StoryParts,
  user: string,
  asOf: number | null,
  lastOnly = false,
): Promise<Story> {
  const { store, engine, subject } = parts;
  const { key } = subject;
  const record = await store.audience(key);
  const version = parts.found?.version ?? (await engine.snapshot(key)).version;
  if (record && version < record.version) throw missing(parts, record);
  const known = await knownOf(engine, key, user, parts.found);
  if (!lastOnly || asOf !== null) {
    return storyOf({ store, key, allRuns: await store.runs({ key, limit: ALL_RUNS }) }, user, asOf, known);
  }
  // Most people were never in most audiences.
  const last = edgesOf(known.standing, known.past).at(-1);
  const allRuns = last ? await store.runs({ key, toVersion: last.version, limit: ALL_RUNS }) : [];
  return storyOf({ store, key, allRuns }, user, asOf, known);
}

/** Tells a story in an audience that was retired and is no longer configured, from its runs and its past. */
export async function tellPast(
  store: StoryParts['store'],
  engines: readonly Engine[],
  key: string,
  user: string,
  asOf: number | null,
): Promise<Story> {
  const known = await Promise.all(engines.map((engine) => knownOf(engine, key, user)));
  const allRuns = await store.runs({ key, limit: ALL_RUNS });
  return storyOf({ store, key, allRuns }, user, asOf, {
    standing: undefined,
    past: known.flatMap(({ past }) => past),
    causes: known.flatMap(({ causes }) => causes),
  });
}

async function knownOf(engine: Engine, key: string, user: string, found?: UserInSnapshot): Promise<Known> {
  const standing = found ? found.standing : (await engine.lookup(key, [user])).get(user);
  const past = found ? found.past : await engine.history(key, user);
  return { standing, past, causes: (await engine.causes?.(key, user)) ?? [] };
}

interface Kept {
  readonly store: StoryParts['store'];
  readonly key: string;
  /** Newest first. */
  readonly allRuns: readonly Run[];
}

async function storyOf(
  { store, key, allRuns }: Kept,
  user: string,
  asOf: number | null,
  { standing, past, causes: all }: Known,
): Promise<Story> {
  const until = asOf ?? Number.POSITIVE_INFINITY;
  const runs = allRuns.filter(({ startedAt }) => startedAt <= until);
  const causes = new Map(all.filter(({ at }) => at <= until).map((cause) => [cause.version, cause]));
  const byVersion = new Map(
    runs.flatMap((run) => (run.state === 'done' && changesMembership(run) ? [[run.toVersion, run] as const] : [])),
  );
  const newest = [...byVersion.keys(), ...causes.keys()].reduce((most, version) => Math.max(most, version), -1);
  // Before the very first run nobody was in; before the oldest kept run it is unknown.
  const isKnown = asOf === null || newest >= 0 || allRuns.at(-1)?.first === true;
  const edges = edgesOf(standing, past).filter(({ version }) => asOf === null || version <= newest);
  const last = edges.at(-1);
  const ids = new Set([...runs.map(({ id }) => id), ...[...causes.keys()].map((version) => liveRun(key, version))]);
  const attempts = (await store.attempts({ userId: user, limit: RECENT })).filter(
    ({ messageId, at }) => ids.has(runOf(messageId)) && at <= until,
  );
  const filter = { conflicts: conflictKeys(key, user), limit: RECENT };
  const letters = (await store.deadLetters(filter)).filter(({ lastAt }) => lastAt <= until);
  const log = { attempts: attempts.toSorted((a, b) => a.at - b.at), letters };
  return {
    key,
    user,
    asOf,
    member: isKnown ? last !== undefined && last.change !== 'left' : null,
    value: last?.value ?? null,
    since: last === undefined ? null : (byVersion.get(last.version) ?? null),
    changes: changesFrom(edges, { key, byVersion, causes }, runs, log),
    unfinished: runs.filter(({ state }) => ['staged', 'held', 'sending', 'committed'].includes(state)),
    attempts: log.attempts,
    deadLetters: letters,
  };
}

interface Edge {
  readonly change: Exclude<StoryChange['change'], 'sent again'>;
  readonly version: number;
  readonly value: string | null;
}

/** The versions at which states begin and end, in order. */
function edgesOf(standing: Standing | undefined, past: readonly Interval[]): readonly Edge[] {
  const present: readonly { value: string | null; since: number; until: number | null }[] = [
    ...past,
    ...(standing?.present ? [{ value: standing.value, since: standing.since, until: null }] : []),
  ];
  const ends = new Set(past.map(({ until }) => until));
  const starts = new Set(present.map(({ since }) => since));
  const begun = present.map(({ value, since }): Edge => {
    return { change: ends.has(since) ? 'changed' : 'entered', version: since, value };
  });
  const over = [...ends].filter((version) => !starts.has(version));
  // Leavers are known even if they left before history was kept.
  if (standing && !standing.present && !ends.has(standing.since)) over.push(standing.since);
  const left = over.map((version): Edge => ({ change: 'left', version, value: null }));
  return [...begun, ...left].toSorted((a, b) => a.version - b.version);
}

interface UserLog {
  readonly attempts: readonly AttemptRecord[];
  readonly letters: readonly DeadLetter[];
}

/** Message ids of a sync begin with the id of its run. */
const runOf = (messageId: string) => messageId.slice(0, messageId.indexOf(':'));

/** The run or event that made each version. */
interface Origins {
  readonly key: string;
  readonly byVersion: ReadonlyMap<number, Run>;
  readonly causes: ReadonlyMap<number, Cause>;
}

function changesFrom(
  edges: readonly Edge[],
  { key, byVersion, causes }: Origins,
  runs: readonly Run[],
  log: UserLog,
): readonly StoryChange[] {
  const changes = edges.map(({ change, value, version }): StoryChange => {
    const run = byVersion.get(version) ?? null;
    const known = causes.get(version) ?? null;
    // Of what a run sent, only changes that it had held have causes.
    const cause = run === null || (known !== null && hasOrigin(known)) ? known : null;
    const told = run ? toldBy(run, log) : cause ? toldBy({ id: liveRun(key, version), destinations: [] }, log) : [];
    return { change, value, ...explained(change, run, cause), run, cause, told };
  });
  const told = new Set(changes.map(({ run }) => run?.id));
  const spoken = new Set([...log.attempts, ...log.letters].map(({ messageId }) => runOf(messageId)));
  const again = runs
    .filter(({ id }) => spoken.has(id) && !told.has(id))
    .map(
      (run): StoryChange => ({
        change: 'sent again',
        ...{ value: null, reason: run.changeReason ?? null, changedAt: run.asOf, run, cause: null },
        told: toldBy(run, log).filter(isTold),
      }),
    );
  // Changes whose time is no longer known are sorted first.
  return [...changes, ...again].toSorted((a, b) => timeOf(a) - timeOf(b));
}

const hasOrigin = ({ event, audience, computed, deletion, time }: Cause) =>
  event !== null || audience !== null || computed !== null || deletion || time !== null;

/** The reason and time that a change was sent with. */
function explained(
  change: Edge['change'],
  run: Run | null,
  cause: Cause | null,
): Pick<StoryChange, 'reason' | 'changedAt'> {
  if (run === null && cause === null) return { reason: null, changedAt: null };
  const own = change === 'left' ? 'exited' : change;
  const changedAt = cause?.changedAt ?? run?.asOf ?? null;
  if (run === null) return { reason: cause && hasOrigin(cause) ? own : 'resync', changedAt };
  const { isEdited, first, changeReason = first ? 'first_sync' : null } = run;
  if (changeReason !== null && changeReason !== 'resync') return { reason: changeReason, changedAt: run.asOf };
  return isEdited ? { reason: 'definition', changedAt: run.asOf } : { reason: own, changedAt };
}

const timeOf = ({ run, cause }: StoryChange) => run?.startedAt ?? cause?.at ?? 0;

const isTold = ({ attempt, deadLetter }: ToldDestination) => attempt !== null || deadLetter !== null;

function toldBy(
  run: Pick<Run, 'id' | 'destinations' | 'skipped'>,
  { attempts, letters }: UserLog,
): readonly ToldDestination[] {
  const posted = attempts.filter(({ messageId }) => runOf(messageId) === run.id);
  const dead = letters.filter(({ messageId }) => runOf(messageId) === run.id);
  const getting = (run.destinations ?? []).filter((name) => !run.skipped?.includes(name));
  const names = new Set([...getting, ...posted.map(nameOf), ...dead.map(nameOf)]);
  return [...names].map((destination) => {
    const theirs = posted.filter((attempt) => attempt.destination === destination);
    return {
      destination,
      attempt: theirs.findLast(({ outcome }) => outcome === 'success') ?? theirs.at(-1) ?? null,
      deadLetter: dead.findLast((letter) => letter.destination === destination) ?? null,
    };
  });
}

const nameOf = ({ destination }: { readonly destination: string }) => destination;
