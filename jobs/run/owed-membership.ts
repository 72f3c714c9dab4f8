import type { Destination } from '../../src/destination.ts';
import type { AudienceRecord, KnownMembership, Run } from '../../src/store/port.ts';
import { reachedBy, wants } from '../audience-or-trait.ts';

/** Membership that a destination is owed in addition to changes. */
export interface Debt {
  readonly destination: string;
  /** The membership, or its end. */
  readonly action: 'backfill' | 'withdraw';
  /** True if it missed changes, the exits of users who left among them. */
  readonly isReturn: boolean;
  /** The membership that it has, so that it is owed only the difference; null if it is owed everything. */
  readonly known: KnownMembership | null;
  /** True if it takes no past members (`backfill: skip`), and what it has of them can't be wrong. */
  readonly skips: boolean;
}

/**
 * Debts to destinations in reach that lack the membership, or still have one that has ended for them. Others that are
 * behind stay in `lapsed` until they are in reach.
 *
 * @param historySince - past membership is known from this time on
 */
export function debtsOf(
  record: AudienceRecord,
  source: string,
  destinations: readonly Destination[],
  historySince = 0,
): readonly Debt[] {
  if (record.version === 0) return [];
  return reachedBy(source, destinations).flatMap((destination): Debt[] => {
    const { name } = destination;
    const isLapsed = record.lapsed.includes(name);
    const isInStep = hasMembership(record, name);
    const isOver = record.endedAt !== null || !wants(destination, record.key);
    const isSkipping = skipsPast(destination);
    if (isOver ? !isInStep && !isLapsed : isInStep || (isSkipping && !isLapsed)) return [];
    // Values that it has of members may be former ones.
    const skips = isSkipping && record.kind === 'audience' && record.formerColumns.length === 0;
    const kept = isLapsed ? knownTo(record, name) : null;
    const known = kept !== null && kept.at >= historySince ? kept : null;
    return [{ destination: name, action: isOver ? 'withdraw' : 'backfill', isReturn: isLapsed, known, skips }];
  });
}

/** True if the destination has the membership so far. */
export const hasMembership = ({ destinations, lapsed }: AudienceRecord, name: string): boolean =>
  destinations.includes(name) && !lapsed.includes(name);

export const skipsPast = ({ backfill }: Destination): boolean => backfill === 'skip';

const knownTo = ({ known = [] }: AudienceRecord, name: string): KnownMembership | null =>
  known.find(({ destination }) => destination === name) ?? null;

/** The record with more destinations that missed changes, and what each of them has. */
export function lapse(
  record: AudienceRecord,
  names: readonly string[],
  knowledge: (name: string) => Omit<KnownMembership, 'destination'> | null,
): Pick<AudienceRecord, 'lapsed' | 'known'> {
  const kept = (record.known ?? []).filter(({ destination }) => !names.includes(destination));
  const added = names.flatMap((destination) => {
    const known = knowledge(destination);
    return known === null ? [] : { ...known, destination };
  });
  return { lapsed: [...new Set([...record.lapsed, ...names])], known: [...kept, ...added] };
}

/** The membership of a destination in step, if it misses changes that are computed from `at` on. */
export const inStep = (version: number, at: number) => ({ version, upTo: version, at });

/**
 * What a destination has that leaves a run; null if that can't be said.
 *
 * @param isBegun - true if it may have a part of the run
 */
export function knownAfterLeaving(run: Run, record: AudienceRecord, name: string, isBegun: boolean) {
  const at = run.leasedAt ?? run.startedAt;
  const nothing = run.first ? inStep(run.toVersion - 1, at) : null;
  const before = hasMembership(record, name) ? inStep(record.version, at) : (knownTo(record, name) ?? nothing);
  if (before === null || !isBegun) return before;
  if (run.action === 'withdraw' || run.action === 'retire') return null;
  return { ...before, upTo: run.action === 'backfill' ? run.fromVersion : run.toVersion };
}

/** The record after these destinations left a run. @see knownAfterLeaving */
export function recordWithout(names: readonly string[], run: Run, record: AudienceRecord, isBegun: boolean) {
  const destinations = record.destinations.filter((name) => !names.includes(name));
  return { ...record, destinations, ...lapse(record, names, (name) => knownAfterLeaving(run, record, name, isBegun)) };
}
