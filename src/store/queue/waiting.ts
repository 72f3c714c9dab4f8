import { CLAIMED, READY, WAITING } from '../states.ts';

/** SQL for the state of a change entering the queue: it waits if an older one is in flight. */
export function stateOf(row: string): string {
  return `CASE WHEN ${row}.conflict IS NOT NULL AND ${isInFlight(row)} THEN ${WAITING} ELSE ${READY} END`;
}

/** SQL condition: an older change of the row's key is in flight. */
export function isInFlight(row: string): string {
  return `EXISTS (SELECT 1 FROM rollcall.delivery AS o
    WHERE o.conflict = ${row}.conflict AND o.destination = ${row}.destination AND o.state = ${CLAIMED})`;
}
