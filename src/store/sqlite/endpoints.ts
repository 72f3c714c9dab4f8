import { type Backlog, type EndpointState, isOrdinary, refusalOf } from '../port.ts';
import type { Connection } from './connection.ts';

type Times = 'paused_at' | 'dead_since' | 'refusing_since' | 'refused_from' | 'taken_at';

export function endpoints(db: Connection): EndpointState[] {
  return db
    .all<Record<'id' | 'destination', number> & Record<Times, number | null>>('SELECT * FROM endpoint')
    .map((row) => ({
      endpoint: db.name(row.id),
      destination: db.name(row.destination),
      pausedAt: row.paused_at,
      deadSince: row.dead_since,
      ...refusalOf(row.refusing_since, row.refused_from, row.taken_at),
    }));
}

export function markEndpoint(db: Connection, _now: number, state: EndpointState): void {
  const { endpoint, destination, pausedAt, deadSince, refusal } = state;
  const id = db.nameId(endpoint);
  if (isOrdinary(state)) {
    db.run('DELETE FROM endpoint WHERE id = ?', id);
    return;
  }
  db.run(
    'INSERT OR REPLACE INTO endpoint VALUES (?, ?, ?, ?, ?, ?, ?)',
    id,
    db.nameId(destination),
    pausedAt,
    deadSince,
    refusal?.since ?? null,
    refusal?.from ?? null,
    refusal?.takenAt ?? null,
  );
}

export function backlog(db: Connection): Backlog[] {
  return db
    .all<Record<'destination' | 'pending' | 'dead' | 'queued' | 'held_out', number>>('SELECT * FROM backlog')
    .map(({ destination, held_out: heldOut, ...counts }) => ({
      destination: db.name(destination),
      ...counts,
      heldOut,
    }));
}
