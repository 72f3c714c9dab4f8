import { pruneOldest } from '../records/prune-oldest.ts';
import type { Connection } from './connection.ts';
import { SqliteSession } from './session.ts';

export async function prune(db: Connection, now: number, before: number, limit: number): Promise<number> {
  const mayHaveMore = db.seen.prune(now);
  const { count } = await pruneOldest(new SqliteSession(db, now), 'attempt', before, limit);
  // A bucket is as many rows as may go in one step: with one in each look, a day of heavy traffic would take weeks to go.
  return mayHaveMore ? limit : count;
}
