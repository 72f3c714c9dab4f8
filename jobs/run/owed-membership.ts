import type { Destination } from '../../src/destination.ts';
import type { AudienceRecord } from '../../src/store/port.ts';
import { reachedBy, wants } from '../audience-or-trait.ts';

/** Membership that a destination is owed in addition to changes. */
export interface Debt {
  readonly destination: string;
  /** The whole membership, or its end. */
  readonly action: 'backfill' | 'withdraw';
  /** True if it missed changes and therefore also gets users who left. */
  readonly leavers: boolean;
}

/**
 * Debts to destinations in reach that lack the membership, or still have one that has ended for them. Others that are
 * behind stay in `lapsed` until they are in reach.
 */
export function debtsOf(record: AudienceRecord, source: string, destinations: readonly Destination[]): readonly Debt[] {
  if (record.version === 0) return [];
  return reachedBy(source, destinations).flatMap((destination): Debt[] => {
    const { name } = destination;
    const isLapsed = record.lapsed.includes(name);
    const isInStep = record.destinations.includes(name) && !isLapsed;
    const isOver = record.endedAt !== null || !wants(destination, record.key);
    if (isOver ? !isInStep && !isLapsed : isInStep) return [];
    return [{ destination: name, action: isOver ? 'withdraw' : 'backfill', leavers: isLapsed }];
  });
}
