import type { DeadReason } from '../../dead-reasons.ts';
import type { Changes } from '../changes.ts';
import { CLAIMED, READY, WAITING } from '../states.ts';
import type { Connection } from './connection.ts';

/** Takes an older change back unless it is in flight, in which case the new one waits for it. */
export function supersede(db: Connection, conflict: string, destination: number, changes: Changes<number>): number {
  let state = READY;
  const older = db.tuples<[number, number, number | null, number]>(
    'SELECT id, state, run, tries FROM delivery WHERE conflict = ? AND destination = ?',
    conflict,
    destination,
  );
  for (const [id, olderState, run, tries] of older) {
    if (olderState === CLAIMED) {
      state = WAITING;
      continue;
    }
    db.run('DELETE FROM delivery WHERE id = ?', id);
    changes.takenBack(destination, run, tries);
  }
  return state;
}

/** Drops what died of a key; a newer change has taken its place. */
export function dropDeadChange(db: Connection, conflict: string, destination: number, changes: Changes<number>): void {
  const dropped = db.tuples<[DeadReason, number | null]>(
    'DELETE FROM dead_letter WHERE conflict = ? AND destination = ? RETURNING reason, run',
    conflict,
    destination,
  );
  for (const [reason, run] of dropped) changes.letterGone(destination, run, reason, 'superseded');
}
