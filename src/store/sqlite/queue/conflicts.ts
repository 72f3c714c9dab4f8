import type { DeadReason } from '../../../kernel/dead-reasons.ts';
import { inPlaceOf } from '../../../membership-change.ts';
import type { CounterChanges } from '../../changes.ts';
import { CLAIMED, READY, WAITING } from '../../states.ts';
import type { Connection } from '../connection.ts';

interface Superseded {
  /** `WAITING` if an older change is in flight, so that the new change waits for it. */
  readonly state: number;
  /** Body of a removed change; null for none. */
  readonly body: string | null;
}

/** Remove older changes that are not in flight. */
export function supersede(
  db: Connection,
  conflict: string,
  destination: number,
  changes: CounterChanges<number>,
): Superseded {
  let state = READY;
  let body: string | null = null;
  const older = db.tuples<[number, number, number | null, number, string]>(
    'SELECT id, state, run, tries, body FROM delivery WHERE conflict = ? AND destination = ?',
    conflict,
    destination,
  );
  for (const [id, olderState, run, tries, olderBody] of older) {
    if (olderState === CLAIMED) {
      state = WAITING;
      continue;
    }
    db.run('DELETE FROM delivery WHERE id = ?', id);
    body = olderBody;
    changes.takenBack(destination, run, tries);
  }
  return { state, body };
}

/** Drop dead letters of a key: a newer change has replaced them. Return the body of one; null for none. */
export function dropDeadChange(
  db: Connection,
  conflict: string,
  destination: number,
  changes: CounterChanges<number>,
): string | null {
  const dropped = db.tuples<[DeadReason, number | null, string]>(
    'DELETE FROM dead_letter WHERE conflict = ? AND destination = ? RETURNING reason, run, body',
    conflict,
    destination,
  );
  for (const [reason, run] of dropped) changes.letterGone(destination, run, reason, 'superseded');
  return dropped.at(-1)?.[2] ?? null;
}

/** Explain the change that takes the place of a delivery, queued or held out, as the delivery does. */
export function passOnExplanation(db: Connection, id: number, conflict: string, destination: number): void {
  const key = 'conflict = ? AND destination = ?';
  const [[older] = ['']] = db.tuples<[string]>('SELECT body FROM delivery WHERE id = ?', id);
  for (const [table, isNewer] of [
    ['delivery', `id <> ${id}`],
    ['dead_letter', "reason = 'queue_full'"],
  ]) {
    const newer = `SELECT id, body FROM ${table} WHERE ${key} AND ${isNewer}`;
    for (const [newerId, body] of db.tuples<[number, string]>(newer, conflict, destination)) {
      db.run(`UPDATE ${table} SET body = ? WHERE id = ?`, inPlaceOf(older, body), newerId);
    }
  }
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
    }
    this.last = conflict;
    return conflict !== this.next;
  }
}
