import { RollcallError } from '../../kernel/errors.ts';
import { hashedForms } from '../deleted-ids.ts';
import type { DeletionRecords, Deletions, Regulation } from '../port.ts';
import { raw, type Sql, sql } from '../sql.ts';
import { userHash } from '../users.ts';
import { listed } from './listed.ts';
import type { Session } from './session.ts';

const EPOCH = raw("(SELECT CAST(value AS bigint) FROM rollcall.meta WHERE key = 'deletion_epoch')");

/** Hashes of users within sources; null for every source. */
function hashesOf(key: string, users: readonly string[], sources: readonly string[] | null): Buffer[] {
  return users.flatMap((user) => (sources ?? ['']).map((scope) => userHash(key, scope, user)));
}

/**
 * Raises the epoch once for a request. Waits for steps that hold the epoch: their data is on disk before anything is
 * erased, and later steps carry an older epoch.
 */
export async function openDeletion(session: Session, { id, userIds, ids, sources }: Regulation): Promise<void> {
  const { rows, run, dialect, hashKey } = session;
  const known = await rows(sql`SELECT 1 FROM rollcall.deletion WHERE regulation = ${id} LIMIT 1`);
  const forms = ids ? hashedForms(ids) : userIds;
  if (forms.length === 0 || known.length > 0) return;
  await run(sql`UPDATE rollcall.meta SET value = CAST(CAST(value AS bigint) + 1 AS text) WHERE key = 'deletion_epoch'`);
  await run(sql`INSERT INTO rollcall.deletion (hash, regulation, epoch, is_open, in_log)
    SELECT DISTINCT value, ${id}, ${EPOCH}, 1, 1 FROM ${dialect.rowsOf('hash', hashesOf(hashKey, forms, sources))}`);
}

export async function closeDeletion({ run }: Session, regulation: string): Promise<void> {
  await run(sql`UPDATE rollcall.deletion SET is_open = 0 WHERE regulation = ${regulation} AND is_open = 1`);
}

export async function setUnlogged(
  { run, dialect }: Session,
  regulations: readonly string[],
  areUnlogged: boolean,
): Promise<void> {
  await run(sql`UPDATE rollcall.deletion SET in_log = ${areUnlogged ? 0 : 1}
    WHERE ${dialect.oneOf(raw('regulation'), 'text', regulations)}`);
}

/** Reads the epoch and keeps others from raising it until the transaction ends. */
export async function holdEpoch({ rows, dialect }: Session): Promise<number> {
  const [row] = await rows<[string]>(
    sql`SELECT value FROM rollcall.meta WHERE key = 'deletion_epoch' ${dialect.forShare}`,
  );
  return Number(row?.[0] ?? 0);
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

export async function deletions({ rows }: Session, since: number | null): Promise<Deletions> {
  const [row] = await rows<[number, number | null, number | null, number]>(
    sql`SELECT ${EPOCH}, (SELECT min(epoch) FROM rollcall.deletion WHERE is_open = 1),
      (SELECT min(epoch) FROM rollcall.deletion WHERE is_open = 1 AND in_log = 1),
      (SELECT count(*) FROM (SELECT 1 FROM rollcall.suppression LIMIT 1) AS one)`,
  );
  const [epoch, open, logged, suppressed] = row ?? [0, null, null, 0];
  return {
    epoch,
    settled: open === null ? epoch : open - 1,
    unlogged: logged === null ? epoch : logged - 1,
    some: epoch > (since ?? epoch),
    suppresses: suppressed > 0,
  };
}

const deletedIn = (isTheirs: Sql, since: number) =>
  sql`SELECT hash FROM rollcall.deletion WHERE ${isTheirs} AND epoch > ${since}`;

export function deletedSince(
  session: Session,
  ...[users, source, since]: Parameters<DeletionRecords['deletedSince']>
): Promise<string[]> {
  return those(session, users, source, (isTheirs) => deletedIn(isTheirs, since));
}

export function excluded(
  session: Session,
  ...[users, source, since]: Parameters<DeletionRecords['excluded']>
): Promise<string[]> {
  return those(
    session,
    users,
    source,
    (isTheirs) => sql`${deletedIn(isTheirs, since)} UNION ALL SELECT hash FROM rollcall.suppression WHERE ${isTheirs}`,
  );
}

async function those(
  { rows, dialect, hashKey }: Session,
  users: readonly string[],
  source: string,
  query: (isTheirs: Sql) => Sql,
): Promise<string[]> {
  const hashes = users.map((user) => hashesOf(hashKey, [user], ['', source]));
  const out = keysOf(await rows<[Uint8Array]>(query(dialect.oneOf(raw('hash'), 'hash', hashes.flat()))));
  return users.filter((_, index) => hashes[index]?.some((hash) => out.has(keyOf(hash))));
}

interface ListedSubject {
  readonly id: number;
  readonly source: string;
  readonly users: readonly string[];
}

/** Ids of the subjects whose users are being deleted now. */
export async function beingDeleted(session: Session, subjects: readonly ListedSubject[]): Promise<ReadonlySet<number>> {
  const { rows, dialect, hashKey } = session;
  const hashed = subjects.map(({ id, source, users }) => ({ id, hashes: hashesOf(hashKey, users, ['', source]) }));
  const isTheirs = dialect.oneOf(
    raw('hash'),
    'hash',
    hashed.flatMap(({ hashes }) => hashes),
  );
  const out = keysOf(
    await rows<[Uint8Array]>(sql`SELECT hash FROM rollcall.deletion WHERE ${isTheirs} AND is_open = 1`),
  );
  return new Set(hashed.filter(({ hashes }) => hashes.some((hash) => out.has(keyOf(hash)))).map(({ id }) => id));
}

const keyOf = (hash: Uint8Array) => Buffer.from(hash).toString('hex');
const keysOf = (rows: readonly (readonly [Uint8Array])[]) => new Set(rows.map(([hash]) => keyOf(hash)));

export async function suppress(
  { run, dialect, hashKey }: Session,
  users: readonly string[],
  sources: readonly string[] | null,
  on: boolean,
  named = users,
): Promise<void> {
  if (!on) {
    const hashes = hashesOf(hashKey, users, sources);
    await run(sql`DELETE FROM rollcall.suppression
      WHERE ${dialect.oneOf(raw('hash'), 'hash', hashes)} OR ${dialect.oneOf(raw('named'), 'hash', hashes)}`);
    return;
  }
  const hex = (list: readonly string[]) => hashesOf(hashKey, list, sources).map((hash) => hash.toString('hex'));
  const namedHashes = hex(named);
  const { from, text } = listed(
    dialect,
    hex(users).map((hash, place) => [hash, namedHashes[place] ?? hash]),
  );
  await run(sql`INSERT INTO rollcall.suppression (hash, named)
    SELECT DISTINCT ${dialect.unhex(text(0))}, ${dialect.unhex(text(1))} FROM ${from} WHERE true ORDER BY 1, 2
    ON CONFLICT DO NOTHING`);
}
