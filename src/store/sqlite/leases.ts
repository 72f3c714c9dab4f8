import type { Fence, Owner } from '../port.ts';
import { type ClockReading, keepClock } from './clock.ts';
import type { Connection } from './connection.ts';
import { freeClaims, rescue } from './settle.ts';

export interface JoinArguments {
  readonly ttl: number;
  /** Owners that joined from this process before. */
  readonly own: readonly number[];
  readonly clock: ClockReading;
}

export function join(db: Connection, now: number, { ttl, own, clock }: JoinArguments): number {
  rescue(db, now, { own });
  keepClock(db, now, clock);
  const row = db.get<{ id: number }>(
    'INSERT INTO owner (lease_until, holder) VALUES (?, ?) RETURNING id',
    now + ttl,
    db.holders.own,
  );
  return row?.id as number;
}

export interface OwnerArguments {
  readonly owner: number;
  readonly ttl: number;
  readonly clock: ClockReading;
}

export function heartbeat(db: Connection, now: number, { owner, ttl, clock }: OwnerArguments): boolean {
  keepClock(db, now, clock);
  return db.run('UPDATE owner SET lease_until = ? WHERE id = ? AND lease_until > ?', now + ttl, owner, now) > 0;
}

/** What is claimed for an owner after its lease has ended would be freed by no one. */
export function isOwner(db: Connection, now: number, owner: number): boolean {
  return db.get('SELECT 1 FROM owner WHERE id = ? AND lease_until > ?', owner, now) !== undefined;
}

export function owners(db: Connection, now: number): Owner[] {
  const sql = 'SELECT id, roster FROM owner WHERE lease_until > ? ORDER BY id';
  return db.tuples<[number, string | null]>(sql, now).map(([id, roster]) => ({ id, roster }));
}

export interface LeaveArguments {
  readonly owner: number;
  readonly clock: ClockReading;
}

export function leave(db: Connection, now: number, { owner, clock }: LeaveArguments): void {
  keepClock(db, now, clock);
  freeClaims(db, owner, false);
  db.run('DELETE FROM owner WHERE id = ?', owner);
}

export interface LeaseArguments {
  readonly lease: string;
  readonly ttl: number;
}

export function takeLease(db: Connection, now: number, { lease, ttl }: LeaseArguments): Fence | null {
  const held = db.get<{ token: number; lease_until: number; holder: string }>(
    'SELECT token, lease_until, holder FROM lease WHERE name = ?',
    lease,
  );
  if (held && held.lease_until > now && !db.holders.hasExited(held.holder)) return null;
  const token = (held?.token ?? 0) + 1;
  db.run('INSERT OR REPLACE INTO lease VALUES (?, ?, ?, ?)', lease, token, now + ttl, db.holders.own);
  return { lease, token };
}

export interface FenceArguments {
  readonly fence: Fence;
  readonly ttl: number;
}

export function renewLease(db: Connection, now: number, { fence, ttl }: FenceArguments): boolean {
  return (
    db.run('UPDATE lease SET lease_until = ? WHERE name = ? AND token = ?', now + ttl, fence.lease, fence.token) > 0
  );
}

/** Ends the lease but keeps its row: the token must rise for ever. */
export function releaseLease(db: Connection, _now: number, { fence }: { readonly fence: Fence }): void {
  db.run('UPDATE lease SET lease_until = 0 WHERE name = ? AND token = ?', fence.lease, fence.token);
}
