import type { DeadReason } from '../../../kernel/dead-reasons.ts';
import type { CounterChanges } from '../../changes.ts';
import { CLAIMED, READY, WAITING } from '../../states.ts';
import type { Connection } from '../connection.ts';

/** Remove older changes. Return `WAITING` if one is in flight, so that the new change waits for it. */
export function supersede(
  db: Connection,
  conflict: string,
  destination: number,
  changes: CounterChanges<number>,
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
    changes.takenBack(destination, run, tries);
  }
  return state;
}

/** Drop dead letters of a key: a newer change has replaced them. */
export function dropDeadChange(
  db: Connection,
  conflict: string,
  destination: number,
  changes: CounterChanges<number>,
): void {
  const dropped = db.tuples<[DeadReason, number | null]>(
    'DELETE FROM dead_letter WHERE conflict = ? AND destination = ? RETURNING reason, run',
    conflict,
    destination,
  );
  for (const [reason, run] of dropped) changes.letterGone(destination, run, reason, 'superseded');
}

/** Half a surrogate pair. JavaScript and SQLite sort text with characters beyond the first 65,536 differently. */
const HALVES = /[\ud800-\udfff]/;

/**
 * A range of conflict keys that no delivery has. Keys that arrive in order, as a plan's do, mostly fall into the same
 * range, so only the first of them is looked up in the index.
 */
export class ConflictGap {
  private readonly db: Connection;
  /** The last key asked about, and the next key of any delivery; null at the end of the index. */
  private last = '';
  private next: string | null = '';

  constructor(db: Connection) {
    this.db = db;
  }

  /** True if no delivery has this key. False also if that is unknown, as for keys out of order. */
  holds(conflict: string): boolean {
    if (HALVES.test(conflict) || conflict <= this.last) return false;
    if (this.next !== null && conflict >= this.next) {
      const [row] = this.db.tuples<[string]>(
        'SELECT conflict FROM delivery WHERE conflict >= ? ORDER BY conflict LIMIT 1',
        conflict,
      );
      const found = row?.[0] ?? null;
      // A key that can't be compared does not end a range, so the next key is looked up again.
      this.next = found !== null && HALVES.test(found) ? '' : found;
      if (found === conflict) return false;
    }
    this.last = conflict;
    return true;
  }
}
