import type { Interval, MemberBatch, RunChange } from '../port.ts';
import { literal, type SqlDialect } from './plan-query.ts';
import type { SqlDatabase } from './session.ts';
import { hasHistory, readSnapshot, tablesOf } from './tables.ts';

/** The members of a snapshot, unordered, in batches. */
export async function* readMembers(database: SqlDatabase, key: string): AsyncGenerator<MemberBatch> {
  if ((await readSnapshot(database, key)).version === 0) return;
  const rows = `SELECT user_id, value, since FROM ${tablesOf(database.session).members(key)}`;
  for await (const columns of database.session.stream(rows)) {
    const [userIds, values, since] = columns as [string[], (string | null)[], (number | bigint)[]];
    yield { userIds, values, since: since.map(Number) };
  }
}

/** Members after a user, ordered by id. */
export async function readMemberPage(
  database: SqlDatabase,
  key: string,
  after: string,
  limit: number,
): Promise<MemberBatch> {
  if ((await readSnapshot(database, key)).version === 0) return { userIds: [], values: [], since: [] };
  const rows = `SELECT user_id, value, since FROM ${tablesOf(database.session).members(key)} WHERE true`;
  const [userIds, values, since] = (await database.session.byColumn(pageOf(database.dialect, rows, after, limit))) as [
    string[],
    (string | null)[],
    (number | bigint)[],
  ];
  return { userIds, values, since: since.map(Number) };
}

/** @param rows - a query that ends with its condition */
function pageOf({ prefix, binary }: SqlDialect, rows: string, after: string, limit: number): string {
  const [id, begin] = [`user_id${binary}`, literal(after)];
  const behind = after === '' ? '' : ` AND ${prefix(id)} >= ${prefix(begin)} AND ${id} > ${begin}`;
  const order = [...new Set([prefix(id), id])].join(', ');
  return `(${rows}${behind} ORDER BY ${order} LIMIT ${limit})`;
}

/** The changes of a version: states that ended with it, joined with those that began. */
export async function* readRunChanges(
  database: SqlDatabase,
  key: string,
  version: number,
): AsyncGenerator<readonly RunChange[]> {
  const query = await changesQuery(database, key, version, (rows) => rows);
  if (query === null) return;
  for await (const columns of database.session.stream(query)) yield toChanges(columns);
}

/** The first of them after a user. They are among the first of each list that is joined, so only those are read. */
export async function readRunChangePage(
  database: SqlDatabase,
  key: string,
  version: number,
  after: string,
  limit: number,
): Promise<readonly RunChange[]> {
  const query = await changesQuery(database, key, version, (rows) => pageOf(database.dialect, rows, after, limit));
  if (query === null) return [];
  return toChanges(await database.session.byColumn(`SELECT * FROM (${query}) AS changes ORDER BY 1 LIMIT ${limit}`));
}

/** @param part - limits a list, which is a query that ends with its condition */
async function changesQuery(
  database: SqlDatabase,
  key: string,
  version: number,
  part: (rows: string) => string,
): Promise<string | null> {
  if (!(await hasHistory(database))) return null;
  const tables = tablesOf(database.session);
  const id = `user_id${database.dialect.binary} AS user_id`;
  const past = (edge: string) =>
    part(`SELECT ${id}, value FROM ${tables.history} WHERE key = ${literal(key)} AND ${edge} = ${version}`);
  const hasMembers = (await readSnapshot(database, key)).version > 0;
  const present = hasMembers
    ? `${part(`SELECT ${id}, value FROM ${tables.members(key)} WHERE since = ${version}`)} UNION ALL `
    : '';
  return `SELECT coalesce(began.user_id, ended.user_id), ended.user_id IS NOT NULL, began.user_id IS NOT NULL, began.value
    FROM (${present}${past('since')}) AS began
    FULL JOIN (${past('until')}) AS ended ON began.user_id = ended.user_id`;
}

function toChanges(columns: readonly unknown[][]): readonly RunChange[] {
  const [userIds, was, is, values] = columns as [string[], boolean[], boolean[], (string | null)[]];
  return userIds.map((userId, row) => ({
    userId,
    change: was[row] ? (is[row] ? 'changed' : 'exited') : 'entered',
    value: values[row] ?? null,
  }));
}

/** A user's past states, oldest first. */
export async function readHistory(database: SqlDatabase, key: string, user: string): Promise<readonly Interval[]> {
  if (!(await hasHistory(database))) return [];
  const rows = await database.session.rows(
    `SELECT value, since, until FROM ${tablesOf(database.session).history}
     WHERE key = ${literal(key)} AND user_id IN (SELECT unnest($1::varchar[])) ORDER BY until, since`,
    [user],
  );
  return rows.map(toInterval);
}

export function toInterval([value, since, until]: readonly unknown[]): Interval {
  return { value: value as string | null, since: Number(since), until: Number(until) };
}

/** Forgets states that ended before a time, in milliseconds since 1970. */
export async function pruneHistory({ session }: SqlDatabase, before: number): Promise<void> {
  await session.run(`DELETE FROM ${tablesOf(session).history} WHERE ended_at < ${Math.floor(before)}`);
}
