import type { DeadReason } from '../../../kernel/dead-reasons.ts';
import type { CounterChanges } from '../../changes.ts';
import { CLAIMED, READY, WAITING } from '../../states.ts';
import type { Connection } from '../connection.ts';

/** Takes an older change back unless it is in flight, in which case the new one waits for it. */
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

/** Drops what died of a key; a newer change has taken its place. */
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

/** Half a character. JavaScript and SQLite put text with whole ones beyond the first 65,536 in different orders. */
const HALVES = /[\ud800-\udfff]/;

/**
 * A stretch of conflict keys that no delivery has. Keys that come in order, as a plan's do, fall into the same one again and
 * again, and only the first of them is looked for in the index.
 */
export class ConflictGap {
  private readonly db: Connection;
  /** The last key that was asked for, and the next one that a delivery has; null at the end of the index. */
  private last = '';
  private next: string | null = '';

  constructor(db: Connection) {
    this.db = db;
  }

  /** Whether no delivery has this key. False also where that is not known, as of keys that come out of order. */
  holds(conflict: string): boolean {
    if (HALVES.test(conflict) || conflict <= this.last) return false;
    if (this.next !== null && conflict >= this.next) {
      const [row] = this.db.tuples<[string]>(
        'SELECT conflict FROM delivery WHERE conflict >= ? ORDER BY conflict LIMIT 1',
        conflict,
      );
      const found = row?.[0] ?? null;
      // A key that can't be compared ends no stretch: the next key is looked for again.
      this.next = found !== null && HALVES.test(found) ? '' : found;
      if (found === conflict) return false;
    }
    this.last = conflict;
    return true;
  }
}
