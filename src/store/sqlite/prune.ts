import { pruneOldest } from '../records/prune-oldest.ts';
import type { Connection } from './connection.ts';
import { SqliteSession } from './session.ts';

export async function prune(db: Connection, now: number, before: number, limit: number): Promise<number> {
  const mayHaveMore = db.seen.prune(now);
  const { count } = await pruneOldest(new SqliteSession(db, now), 'attempt', before, limit);
  // A bucket alone reaches `limit`. At one bucket per scheduled pruning, a day of heavy traffic would take weeks.
  return mayHaveMore ? limit : count;
}
