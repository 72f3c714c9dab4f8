import { Conditions } from './conditions.ts';
import type { Connection, Row } from './connection.ts';

export interface StoredAttempt extends Row {
  at: number;
  delivery: number;
  source: number;
  type: number;
  message_id: string;
  user_id: string | null;
  outcome: number;
  status: number | null;
  ms: number;
  error: string | null;
  response: string | null;
}

export interface AttemptQuery {
  readonly destination?: string;
  readonly endpoint?: string;
  readonly delivery?: number;
  readonly messageId?: string;
  readonly userId?: string;
  readonly outcome?: number;
  readonly since?: number;
  readonly limit: number;
}

/** Newest first. */
export function attempts(db: Connection, _now: number, query: AttemptQuery) {
  const known = (name: string) => db.knownNameId(name);
  const conditions = new Conditions()
    .equals('destination', query.destination, known)
    .equals('endpoint', query.endpoint, known)
    .equals('message_id', query.messageId)
    .equals('user_id', query.userId)
    .from('at', query.since)
    .oneOf('delivery', query.delivery === undefined ? undefined : [query.delivery])
    .oneOf('outcome', query.outcome === undefined ? undefined : [query.outcome]);
  const rows = db.all<StoredAttempt & { destination: number; endpoint: number }>(
    `SELECT * FROM attempt ${conditions.where()} ORDER BY id DESC LIMIT ?`,
    ...conditions.values,
    query.limit,
  );
  return rows.map((row) => ({
    ...row,
    destination: db.name(row.destination),
    endpoint: db.name(row.endpoint),
    source: db.name(row.source),
  }));
}

export interface PruneArguments {
  readonly before: number;
  readonly limit: number;
}

export function prune(db: Connection, now: number, { before, limit }: PruneArguments): number {
  const mayHaveMore = db.seen.prune(now);
  // Attempts are appended in the order of time, so the oldest have the smallest ids.
  const removed = db.run(
    'DELETE FROM attempt WHERE id IN (SELECT id FROM (SELECT id, at FROM attempt ORDER BY id LIMIT ?) WHERE at < ?)',
    limit,
    before,
  );
  // A bucket is as many rows as may go in one step: with one in each look, a day of heavy traffic would take weeks to go.
  return mayHaveMore ? limit : removed;
}
