import { type ClockReading, keepClock } from '../clock.ts';
import type { Connection } from '../connection.ts';
import { freeClaims, rescue } from './settle.ts';

/** @param own - owners that this process registered before */
export function join(db: Connection, now: number, ttl: number, own: readonly number[], clock: ClockReading): number {
  rescue(db, now, own);
  keepClock(db, now, clock);
  const row = db.get<{ id: number }>(
    'INSERT INTO owner (lease_until, holder) VALUES (?, ?) RETURNING id',
    now + ttl,
    db.holders.own,
  );
  return row?.id as number;
}

export function heartbeat(db: Connection, now: number, owner: number, ttl: number, clock: ClockReading): boolean {
  keepClock(db, now, clock);
  return db.run('UPDATE owner SET lease_until = ? WHERE id = ? AND lease_until > ?', now + ttl, owner, now) > 0;
}

/** Claims of an owner with an expired lease would never be freed, so check before claiming. */
export function isOwner(db: Connection, now: number, owner: number): boolean {
  return db.get('SELECT 1 FROM owner WHERE id = ? AND lease_until > ?', owner, now) !== undefined;
}

export function leave(db: Connection, now: number, owner: number, clock: ClockReading): void {
  keepClock(db, now, clock);
  freeClaims(db, owner, false);
  db.run('DELETE FROM owner WHERE id = ?', owner);
}
