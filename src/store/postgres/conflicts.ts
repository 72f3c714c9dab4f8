import { CLAIMED, READY, WAITING } from '../states.ts';

/** The state of a change on its way into the queue: it waits for an older one that is in flight. */
export function stateOf(row: string): string {
  return `CASE WHEN ${row}.conflict IS NOT NULL AND EXISTS (
    SELECT 1 FROM rollcall.delivery o
    WHERE o.conflict = ${row}.conflict AND o.destination = ${row}.destination AND o.state = ${CLAIMED}
  ) THEN ${WAITING} ELSE ${READY} END`;
}
