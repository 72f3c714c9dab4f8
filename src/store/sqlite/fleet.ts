import type { Fence, Orphan, Roster } from '../port.ts';
import { rosterId } from '../roster.ts';
import { checkFence } from './accept.ts';
import type { Connection } from './connection.ts';

export interface PublishArguments {
  readonly owner: number;
  readonly roster: Roster;
}

export function publish(db: Connection, _now: number, { owner, roster }: PublishArguments): void {
  const id = rosterId(roster);
  db.run('INSERT OR IGNORE INTO roster VALUES (?, ?)', id, JSON.stringify(roster));
  db.run('UPDATE owner SET roster = ? WHERE id = ?', id, owner);
  db.run('DELETE FROM roster WHERE id NOT IN (SELECT roster FROM owner WHERE roster IS NOT NULL)');
  const names = JSON.stringify(roster.destinations.map(({ name }) => name));
  db.run('DELETE FROM orphan WHERE destination IN (SELECT value FROM json_each(?))', names);
}

export function rosters(
  db: Connection,
  _now: number,
  { ids }: { readonly ids: readonly string[] },
): [string, Roster][] {
  const sql = 'SELECT id, record FROM roster WHERE id IN (SELECT value FROM json_each(?))';
  return db
    .tuples<[string, string]>(sql, JSON.stringify(ids))
    .map(([id, record]) => [id, JSON.parse(record) as Roster]);
}

const KNOWN = `SELECT d.value ->> 'name' FROM owner o JOIN roster r ON r.id = o.roster, json_each(r.record, '$.destinations') d
  WHERE o.lease_until > ?`;
const PENDING = `SELECT n.value AS destination, b.pending + b.held_out AS pending FROM backlog b
  JOIN name n ON n.id = b.destination WHERE b.pending + b.held_out > 0 AND n.value NOT IN (${KNOWN})`;

export function orphans(db: Connection, now: number): Orphan[] {
  const sql = `SELECT p.destination, p.pending, o.since, coalesce(o.unknown_for, 0)
    FROM (${PENDING}) p LEFT JOIN orphan o ON o.destination = p.destination ORDER BY p.destination`;
  return db
    .tuples<[string, number, number | null, number]>(sql, now)
    .map(([destination, pending, since, unknownFor]) => ({ destination, pending, since, unknownFor }));
}

export interface CountArguments {
  readonly fence: Fence;
  readonly elapsed: number;
}

export function countOrphans(db: Connection, now: number, { fence, elapsed }: CountArguments): Orphan[] {
  checkFence(db, fence);
  const silent =
    'SELECT 1 FROM owner WHERE lease_until > ? AND (roster IS NULL OR roster NOT IN (SELECT id FROM roster))';
  if (db.get(silent, now)) return orphans(db, now);
  const found = orphans(db, now);
  const names = JSON.stringify(found.map(({ destination }) => destination));
  db.run('DELETE FROM orphan WHERE destination NOT IN (SELECT value FROM json_each(?))', names);
  db.run('UPDATE orphan SET unknown_for = unknown_for + ?', elapsed);
  for (const { destination } of found) db.run('INSERT OR IGNORE INTO orphan VALUES (?, ?, 0)', destination, now);
  return orphans(db, now);
}

/** Whether nobody has known it for so long; in the transaction that buries, so that whoever comes back is in time. */
export function isUnknownFor(db: Connection, destination: string, unknownFor: number): boolean {
  const sql = 'SELECT 1 FROM orphan WHERE destination = ? AND unknown_for >= ?';
  return db.get(sql, destination, unknownFor) !== undefined;
}
