import type { Destination } from '../../src/destination.ts';
import type { AudienceRecord } from '../../src/store/port.ts';
import { reachedBy, wants } from '../audience-or-trait.ts';

/** Membership that a destination is owed beside the changes. */
export interface Debt {
  readonly destination: string;
  /** The whole membership, or that it is over. */
  readonly action: 'backfill' | 'withdraw';
  /** Whether it missed changes, so that it also hears who left. */
  readonly leavers: boolean;
}

/**
 * Destinations in reach that do not know the membership, or still believe in one that is over for them. Others that are
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
