import { CLAIMED, READY, WAITING } from '../states.ts';
import type { Connection } from './connection.ts';
import type { BacklogChanges, RunChanges } from './counters.ts';

/** Takes an older change back unless it is in flight, in which case the new one waits for it. */
export function supersede(
  db: Connection,
  conflict: string,
  destination: number,
  backlog: BacklogChanges,
  runs: RunChanges,
): number {
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
    const untried = tries === 0 ? -1 : 0;
    backlog.add(destination, { pending: -1, queued: untried });
    if (run !== null) runs.add(run, { superseded: 1, untried });
  }
  return state;
}

/** Drops what died of a key; a newer change has taken its place. */
export function dropDeadChange(
  db: Connection,
  conflict: string,
  destination: number,
  backlog: BacklogChanges,
  runs: RunChanges,
): void {
  const dropped = db.tuples<[string, number | null]>(
    'DELETE FROM dead_letter WHERE conflict = ? AND destination = ? RETURNING reason, run',
    conflict,
    destination,
  );
  for (const [reason, run] of dropped) {
    const heldOut = reason === 'queue_full' ? -1 : 0;
    backlog.add(destination, { dead: -1, heldOut });
    if (heldOut !== 0 && run !== null) runs.add(run, { superseded: 1, untried: -1 });
  }
}
