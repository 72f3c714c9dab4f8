import { RollcallError } from '../src/errors.ts';
import type { AudienceRecord, Run } from '../src/store/port.ts';
import type { RunContext } from './context.ts';
import type { Action, Staged } from './engines/port.ts';

/** A sync speaks to those who have the membership so far; a first one or a resync to all; a backfill to one. */
export function scopeOf(
  action: Action,
  record: AudienceRecord,
  connected: readonly string[],
  newcomer: string | undefined,
) {
  if (newcomer !== undefined) return [newcomer];
  const everyone = action === 'resync' || (action === 'sync' && record.version === 0);
  return everyone ? connected : connected.filter((name) => record.destinations.includes(name));
}

export function newRun(
  { clock, subject }: RunContext,
  { action, asOf }: { readonly action: Action; readonly asOf: number },
  record: AudienceRecord,
  startedAt: number,
  destinations: readonly string[],
  epoch: number,
): Run {
  return {
    id: `${startedAt.toString(36)}-${clock.token(4)}`,
    key: subject.key,
    kind: subject.kind,
    action,
    state: 'staged',
    first: action === 'sync' && record.version === 0,
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
    destinations,
    asOf,
    epoch,
    startedAt,
    finishedAt: null,
  };
}

export function withCounts(run: Run, staged: Staged): Run {
  const { members, entered, exited, changed, invalid, duplicates, fromVersion, toVersion } = staged;
  return { ...run, members, entered, exited, changed, invalid, duplicates, fromVersion, toVersion };
}

export function recordAfter(run: Run, staged: Staged, before: AudienceRecord, told: readonly string[]): AudienceRecord {
  const isBackfill = run.action === 'backfill';
  const destinations = isBackfill ? [...before.destinations, ...told] : told;
  const once = new Set([...before.lapsed, ...before.destinations, ...(run.destinations ?? [])]);
  const after = {
    ...before,
    sequence: before.sequence + staged.total,
    destinations,
    lapsed: [...once].filter((name) => !destinations.includes(name)),
  };
  if (isBackfill) return after;
  const version = run.action === 'retire' ? 0 : run.toVersion;
  return { ...after, version, definitionHash: run.definitionHash, columns: staged.columns };
}

export function failed(run: Run, error: unknown, at: number): Run {
  return { ...noted(run, error), state: 'failed', finishedAt: at };
}

export function noted(run: Run, error: unknown): Run {
  return {
    ...run,
    code: error instanceof RollcallError ? error.code : 'store_failed',
    reason: error instanceof Error ? error.message : String(error),
  };
}
