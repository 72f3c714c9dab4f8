import type { Backlog, EndpointState } from '../port.ts';
import type { Connection } from './connection.ts';

export function endpoints(db: Connection): EndpointState[] {
  return db
    .all<{ id: number; destination: number; paused_at: number | null; dead_since: number | null }>(
      'SELECT * FROM endpoint',
    )
    .map((row) => ({
      endpoint: db.name(row.id),
      destination: db.name(row.destination),
      pausedAt: row.paused_at,
      deadSince: row.dead_since,
    }));
}

export function markEndpoint(db: Connection, _now: number, state: EndpointState): void {
  const { endpoint, destination, pausedAt, deadSince } = state;
  const id = db.nameId(endpoint);
  if (pausedAt === null && deadSince === null) db.run('DELETE FROM endpoint WHERE id = ?', id);
  else db.run('INSERT OR REPLACE INTO endpoint VALUES (?, ?, ?, ?)', id, db.nameId(destination), pausedAt, deadSince);
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
