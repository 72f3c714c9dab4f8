import type { DatabaseSync } from 'node:sqlite';
import type { DeleteBody, ReceivedRequest } from '@rollcall/receivers';

/** Something outside the database that has to forget the user too; must be harmless when repeated. */
export type OutsideStep = (userId: string, signal: AbortSignal) => Promise<void>;

// Children first, because of the foreign keys.
const deletions = [
  'delete from purchase where customer_id = ?',
  'delete from subscription where customer_id = ?',
  'delete from customer where id = ?',
];

function deleteRows(db: DatabaseSync, userId: string): number {
  db.exec('begin immediate');
  try {
    const rows = deletions.reduce((sum, sql) => sum + Number(db.prepare(sql).run(userId).changes), 0);
    db.prepare('update deletion set rows_deleted = coalesce(rows_deleted, 0) + ? where user_id = ?').run(rows, userId);
    db.exec('commit');
    return rows;
  } catch (error) {
    db.exec('rollback');
    throw error;
  }
}

/**
 * The handler of deletion notices. It notes the request, lets the outside forget the user, deletes the rows in one
 * transaction and confirms last. Whatever fails, it throws: the answer is 500, Rollcall sends the notice again, and
 * every step bears being repeated. A deletion without `confirmed_at` is therefore one that is not finished.
 */
export function createAutomation(db: DatabaseSync, outside: readonly OutsideStep[]) {
  return async ({ userId, timestamp }: DeleteBody, { signal }: Pick<ReceivedRequest, 'signal'>): Promise<void> => {
    db.prepare(`insert into deletion (user_id, requested_at) values (?, ?)
                on conflict (user_id) do update set requested_at = excluded.requested_at, confirmed_at = null`).run(
      userId,
      timestamp,
    );
    for (const step of outside) await step(userId, signal);
    deleteRows(db, userId);
    db.prepare('update deletion set confirmed_at = ? where user_id = ?').run(new Date().toISOString(), userId);
  };
}
