import type { Destination } from '../../src/destination.ts';
import type { ChangeReason } from '../../src/membership-change.ts';
import type { AudienceRecord, Run } from '../../src/store/port.ts';
import { connectedTo, reachedBy, wants } from '../audience-or-trait.ts';
import { asRollcallError } from '../engine-errors.ts';
import type { Action, ComputedKind, Staged } from '../engines/port.ts';
import { endReason, reasonsOf } from './explanations.ts';
import { hasMembership, knownAfterLeaving, lapse, skipsPast } from './owed-membership.ts';
import type { RunPlace, Subject } from './run-context.ts';

/** True if the next sync is a first one: the audience is new, or was retired before. */
export function isFirst({ version, endedAt }: AudienceRecord): boolean {
  return version === 0 || endedAt !== null;
}

/**
 * The destinations of a new run. A sync goes to those that have the membership so far, a first one or a resync to all.
 * Destinations that missed something get all of it afterwards.
 */
export function scopeOf(
  action: Action,
  record: AudienceRecord,
  subject: Pick<Subject, 'key' | 'source'>,
  destinations: readonly Destination[],
): readonly string[] {
  const connected = connectedTo(subject, destinations);
  const isLapsed = (name: string) => record.lapsed.includes(name);
  const hasIt = (name: string) => hasMembership(record, name);
  if (action === 'resync') return connected;
  if (action === 'retire') return namesOf(reachedBy(subject.source, destinations)).filter(hasIt);
  if (isFirst(record)) return connected.filter((name) => !isLapsed(name));
  // Who skips past members counts as told of them.
  const skipping = namesOf(destinations.filter(skipsPast));
  return connected.filter((name) => hasIt(name) || (skipping.includes(name) && !isLapsed(name)));
}

/** The destinations of a run that get none of it, and count as told. */
export function skippedBy(run: Pick<Run, 'first' | 'destinations'>, destinations: readonly Destination[]) {
  const skipping = namesOf(destinations.filter(skipsPast));
  return run.first ? skipping.filter((name) => run.destinations?.includes(name)) : [];
}

/** The destinations that may stay in a run that has begun. */
export function audibleTo(
  { action }: Run,
  record: AudienceRecord,
  subject: Subject,
  destinations: readonly Destination[],
): readonly string[] {
  if (action !== 'retire' && action !== 'withdraw') return connectedTo(subject, destinations);
  const isOver = (each: Destination) => action === 'retire' || record.endedAt !== null || !wants(each, record.key);
  return namesOf(reachedBy(subject.source, destinations).filter(isOver));
}

const namesOf = (destinations: readonly Destination[]) => destinations.map(({ name }) => name);

/** True if the last committed run had another definition. */
export function isEdited({ definition }: Subject, record: AudienceRecord): boolean {
  if (definition === null || isFirst(record)) return false;
  if (record.contentHash === undefined) return definition.hash !== record.definitionHash;
  return definition.contentHash !== record.contentHash;
}

/** The reason of all changes of a new run; null if each has its own. */
export function reasonOf(
  action: Action,
  record: AudienceRecord,
  edited: boolean,
  { isReturn = false, renamedTo }: { readonly isReturn?: boolean | undefined; readonly renamedTo?: string | undefined },
): ChangeReason | null {
  switch (action) {
    case 'retire':
      return renamedTo === undefined ? 'retired' : 'renamed';
    case 'withdraw':
      return endReason(record);
    case 'backfill':
      return isReturn ? 'returning' : 'backfill';
    case 'resync':
      // One that the store doesn't know has begun in a former store.
      return record.endedAt === null ? 'resync' : 'first_sync';
    case 'sync':
      if (isFirst(record)) return 'first_sync';
      return edited ? 'definition' : null;
  }
}

/** The choices that make one run differ from another of its audience. */
interface RunOrder {
  readonly action: Action;
  readonly asOf: number;
  readonly destinations: readonly string[];
  readonly epoch: number;
  readonly changeReason: ChangeReason | null;
}

export function newRun(
  { clock, subject, lease }: RunPlace,
  order: RunOrder,
  record: AudienceRecord,
  startedAt: number,
): Run {
  return {
    id: `${startedAt.toString(36)}-${clock.token(4)}`,
    key: subject.key,
    kind: subject.kind,
    ...order,
    state: 'staged',
    phase: 'stage',
    first: order.action === 'sync' && isFirst(record),
    members: 0,
    entered: 0,
    exited: 0,
    changed: 0,
    invalid: 0,
    duplicates: 0,
    held: false,
    reason: null,
    code: null,
    sent: 0,
    cursor: null,
    fromVersion: record.version,
    toVersion: record.version,
    definitionHash: subject.definition?.hash ?? record.definitionHash,
    contentHash: subject.definition?.contentHash,
    startedAt,
    leasedAt: lease.since,
    finishedAt: null,
  };
}

export function withCounts(run: Run, staged: Staged): Run {
  const { members, entered, exited, changed, invalid, duplicates, fromVersion, toVersion } = staged;
  const counts = { members, entered, exited, changed, invalid, duplicates, fromVersion, toVersion };
  return { ...run, ...counts, reasons: reasonsOf({ ...run, fromVersion }, staged) };
}

/** The sequence after all that a run has sent: members without a message may have had positions before the last. */
export const sequenceAfter = ({ cursor }: Run, { sequence }: AudienceRecord, total = 0): number =>
  sequence + Math.max(total, Number(cursor ?? 0));

/** The record of an audience after the destinations in `told` got all of a run. */
export function recordAfter(
  run: Run,
  staged: Staged,
  before: AudienceRecord,
  told: readonly string[],
  now: number,
): AudienceRecord {
  const { action } = run;
  const isOver = action === 'retire' || action === 'withdraw';
  const isForOne = action === 'backfill' || action === 'withdraw';
  const others = isForOne ? before.destinations.filter((name) => !run.destinations?.includes(name)) : [];
  const destinations = isOver ? others : [...others, ...told];
  const once = new Set([...before.lapsed, ...before.destinations, ...(run.destinations ?? [])]);
  const lapsed = [...once].filter((name) => !destinations.includes(name) && !told.includes(name));
  const sequence = sequenceAfter(run, before, staged.total);
  const news = lapsed.filter((name) => !before.lapsed.includes(name));
  const { known = [] } = lapse(before, news, (name) => knownAfterLeaving(run, before, name, false));
  // Without its snapshot an engine has no history either; of another kind, values can't be compared.
  const isLost = run.kind !== before.kind || (action === 'resync' && staged.fromVersion !== before.version);
  const after = {
    ...before,
    ...{ sequence, destinations, lapsed },
    known: isLost ? [] : known.filter(({ destination }) => lapsed.includes(destination)),
  };
  if (action === 'retire') {
    // Without its snapshot nothing more can be sent.
    const left = staged.fromVersion === 0 ? [] : lapsed;
    return {
      ...after,
      endedAt: now,
      renamedTo: run.renamedTo,
      lapsed: left,
      version: left.length > 0 ? run.toVersion : 0,
    };
  }
  // Once its end has reached every destination that had it, the snapshot is no longer needed.
  if (isForOne) return before.endedAt !== null && lapsed.length === 0 ? { ...after, version: 0 } : after;
  return {
    ...after,
    kind: run.kind,
    version: run.toVersion,
    definitionHash: run.definitionHash,
    contentHash: run.contentHash,
    columns: staged.columns,
    formerColumns: [...new Set([...before.formerColumns, ...noLonger(run, staged.columns, before)])],
    endedAt: null,
    renamedTo: undefined,
  };
}

/** The keys of an audience or trait in the traits object. */
function toldKeys(kind: ComputedKind, key: string, columns: readonly string[]): readonly string[] {
  return kind === 'audience' ? [key] : columns;
}

/** The keys that members were sent before a run, but that its definition doesn't have, or has as another kind. */
export function noLonger(run: Run, columns: readonly string[], before: AudienceRecord): readonly string[] {
  if (before.version === 0 && before.endedAt === null) return [];
  const now = run.kind === before.kind ? toldKeys(run.kind, run.key, columns) : [];
  return toldKeys(before.kind, before.key, before.columns).filter((name) => !now.includes(name));
}

interface RunFailure {
  readonly error: unknown;
  /** Start of the first of the failures in a row. */
  readonly since: number;
}

export function failed(run: Run, failure: RunFailure, at: number): Run {
  return { ...noted(run, failure), state: 'failed', finishedAt: at };
}

export function noted(run: Run, { error, since }: RunFailure): Run {
  const { code, message } = asRollcallError(error);
  return { ...run, code, reason: message, failingSince: since };
}
