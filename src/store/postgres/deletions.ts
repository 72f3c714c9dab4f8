import { RollcallError } from '../../errors.ts';
import type { Deletions, Regulation } from '../port.ts';
import { hash } from './arrays.ts';
import type { Context } from './context.ts';
import type { Session } from './database.ts';
import { hashOf } from './suppression.ts';

const EPOCH = "(SELECT value::bigint FROM rollcall.meta WHERE key = 'deletion_epoch')";

/**
 * Raises the epoch for a request, once. It waits for the steps that hold the epoch: what they bring is on disk before
 * anything is erased, and what comes later names an older epoch.
 */
export async function openDeletion(
  { suppressionKey }: Context,
  session: Session,
  { id, userIds, sources }: Regulation,
): Promise<void> {
  const known = await session.rows('SELECT 1 FROM rollcall.deletion WHERE regulation = $1 LIMIT 1', [id]);
  if (userIds.length === 0 || known.length > 0) return;
  await session.run("UPDATE rollcall.meta SET value = (value::bigint + 1)::text WHERE key = 'deletion_epoch'");
  const hashes = userIds.flatMap((user) => (sources ?? ['']).map((scope) => hashOf(suppressionKey, scope, user)));
  await session.run(
    `INSERT INTO rollcall.deletion (hash, regulation, epoch, is_open)
     SELECT DISTINCT h, $2, ${EPOCH}, 1 FROM unnest($1::bytea[]) AS h`,
    [hash(hashes), id],
  );
}

export async function closeDeletion(session: Session, regulation: string): Promise<void> {
  await session.run('UPDATE rollcall.deletion SET is_open = 0 WHERE regulation = $1 AND is_open = 1', [regulation]);
}

/**
 * Holds the epoch until the transaction ends.
 *
 * @throws RollcallError `epoch_moved`
 */
export async function checkEpoch(session: Session, epoch: number): Promise<void> {
  if ((await holdEpoch(session)) === epoch) return;
  throw new RollcallError('epoch_moved', 'Users were deleted since this was computed.');
}

export async function deletions({ db }: Context, since: number | null): Promise<Deletions> {
  const [row] = await db.rows<[number, number | null]>(
    `SELECT ${EPOCH}, (SELECT min(epoch) FROM rollcall.deletion WHERE is_open = 1)`,
  );
  const [epoch, open] = row ?? [0, null];
  return { epoch, settled: open === null ? epoch : open - 1, some: epoch > (since ?? epoch) };
}

export async function excluded(
  { db, suppressionKey }: Context,
  users: readonly string[],
  source: string,
  since: number,
): Promise<readonly string[]> {
  const hashes = users.map((user) => ['', source].map((scope) => hashOf(suppressionKey, scope, user)));
  const rows = await db.rows<[Buffer]>(
    `SELECT hash FROM rollcall.deletion WHERE hash = ANY ($1::bytea[]) AND epoch > $2::bigint
     UNION ALL SELECT hash FROM rollcall.suppression WHERE hash = ANY ($1::bytea[])`,
    [hash(hashes.flat()), since],
  );
  const out = new Set(rows.map(([found]) => found.toString('hex')));
  return users.filter((_, index) => hashes[index]?.some((each) => out.has(each.toString('hex'))));
}

/** The epoch, which nobody raises until the transaction ends. */
export async function holdEpoch(session: Session): Promise<number> {
  const [row] = await session.rows<[string]>("SELECT value FROM rollcall.meta WHERE key = 'deletion_epoch' FOR SHARE");
  return Number(row?.[0] ?? 0);
}

/** Those letters, by id, whose users are being taken out right now. */
export async function lettersBeingDeleted(
  { suppressionKey }: Context,
  session: Session,
  letters: readonly { readonly id: number; readonly source: string; readonly users: readonly string[] }[],
): Promise<readonly number[]> {
  const hashed = letters.map(({ id, source, users }) => ({
    id,
    hashes: users.flatMap((user) => ['', source].map((scope) => hashOf(suppressionKey, scope, user))),
  }));
  const rows = await session.rows<[Buffer]>(
    'SELECT hash FROM rollcall.deletion WHERE hash = ANY ($1::bytea[]) AND is_open = 1',
    [hash(hashed.flatMap(({ hashes }) => hashes))],
  );
  const out = new Set(rows.map(([found]) => found.toString('hex')));
  return hashed.filter(({ hashes }) => hashes.some((each) => out.has(each.toString('hex')))).map(({ id }) => id);
}
