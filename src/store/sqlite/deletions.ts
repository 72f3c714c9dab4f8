import { RollcallError } from '../../errors.ts';
import type { Deletions, Regulation } from '../port.ts';
import { suppressionHash } from './accept.ts';
import type { Connection } from './connection.ts';

const EPOCH = 'deletion_epoch';

/** Raises the epoch for a request, once: what was computed before, and comes in after this, names an older one. */
export function openDeletion(db: Connection, { id, userIds, sources }: Regulation): void {
  if (userIds.length === 0 || db.get('SELECT 1 FROM deletion WHERE regulation = ? LIMIT 1', id)) return;
  const epoch = epochOf(db) + 1;
  db.setMeta(EPOCH, String(epoch));
  const hash = suppressionHash(db);
  for (const user of userIds) {
    for (const scope of sources ?? ['']) {
      db.run('INSERT OR REPLACE INTO deletion VALUES (?, ?, ?, 1)', hash(scope, user), id, epoch);
    }
  }
}

export function closeDeletion(db: Connection, regulation: string): void {
  db.run('UPDATE deletion SET is_open = 0 WHERE regulation = ? AND is_open = 1', regulation);
}

/** @throws RollcallError `epoch_moved` */
export function checkEpoch(db: Connection, epoch: number): void {
  if (epochOf(db) === epoch) return;
  throw new RollcallError('epoch_moved', 'Users were deleted since this was computed.');
}

export function deletions(db: Connection, _now: number, { since }: { readonly since: number | null }): Deletions {
  const epoch = epochOf(db);
  const open = db.get<{ epoch: number | null }>('SELECT min(epoch) AS epoch FROM deletion WHERE is_open = 1')?.epoch;
  const settled = typeof open === 'number' ? open - 1 : epoch;
  return { epoch, settled, some: epoch > (since ?? epoch) };
}

export interface ExcludedArguments {
  readonly users: readonly string[];
  readonly source: string;
  readonly since: number;
}

export function excluded(db: Connection, _now: number, { users, source, since }: ExcludedArguments): string[] {
  const hash = suppressionHash(db);
  const isOut = (scope: string, user: string) => {
    const hashed = hash(scope, user);
    return (
      db.get('SELECT 1 FROM deletion WHERE hash = ? AND epoch > ? LIMIT 1', hashed, since) !== undefined ||
      db.get('SELECT 1 FROM suppression WHERE hash = ?', hashed) !== undefined
    );
  };
  return users.filter((user) => isOut('', user) || isOut(source, user));
}

/** Whether a user is being taken out right now. */
export function isBeingDeleted(db: Connection): ((source: string, user: string) => boolean) | null {
  if (db.get('SELECT 1 FROM deletion WHERE is_open = 1 LIMIT 1') === undefined) return null;
  const hash = suppressionHash(db);
  const isOut = (scope: string, user: string) =>
    db.get('SELECT 1 FROM deletion WHERE hash = ? AND is_open = 1 LIMIT 1', hash(scope, user)) !== undefined;
  return (source, user) => isOut('', user) || isOut(source, user);
}

export function hashKey(db: Connection): string {
  return db.meta('suppression_key') ?? '';
}

function epochOf(db: Connection): number {
  return Number(db.meta(EPOCH) ?? 0);
}
