import type { Interval, MemberBatch, RunChange } from '../port.ts';
import { literal } from './plan-query.ts';
import type { SqlDatabase } from './session.ts';
import { hasHistory, membersTable, readSnapshot } from './tables.ts';

/** The members of a snapshot, in no order, a batch at a time. */
export async function* readMembers(database: SqlDatabase, key: string): AsyncGenerator<MemberBatch> {
  if ((await readSnapshot(database, key)).version === 0) return;
  for await (const columns of database.session.stream(`SELECT user_id, value, since FROM ${membersTable(key)}`)) {
    const [userIds, values, since] = columns as [string[], (string | null)[], (number | bigint)[]];
    yield { userIds, values, since: since.map(Number) };
  }
}

/** Changes of a version: states that ended with it, beside those that began. */
export async function* readRunChanges(
  database: SqlDatabase,
  key: string,
  version: number,
): AsyncGenerator<readonly RunChange[]> {
  if (!(await hasHistory(database))) return;
  const { session, dialect } = database;
  const id = `user_id${dialect.binary} AS user_id`;
  const past = (edge: string) =>
    `SELECT ${id}, value FROM rollcall.history WHERE key = ${literal(key)} AND ${edge} = ${version}`;
  const hasMembers = (await readSnapshot(database, key)).version > 0;
  const present = hasMembers ? `SELECT ${id}, value FROM ${membersTable(key)} WHERE since = ${version} UNION ALL ` : '';
  const query = `SELECT coalesce(began.user_id, ended.user_id), ended.user_id IS NOT NULL, began.user_id IS NOT NULL, began.value
    FROM (${present}${past('since')}) AS began
    FULL JOIN (${past('until')}) AS ended ON began.user_id = ended.user_id`;
  for await (const columns of session.stream(query)) {
    const [userIds, was, is, values] = columns as [string[], boolean[], boolean[], (string | null)[]];
    yield userIds.map((userId, row) => ({
      userId,
      change: was[row] ? (is[row] ? 'changed' : 'exited') : 'entered',
      value: values[row] ?? null,
    }));
  }
}

/** A user's states in the past, oldest first. */
export async function readHistory(database: SqlDatabase, key: string, user: string): Promise<readonly Interval[]> {
  if (!(await hasHistory(database))) return [];
  const rows = await database.session.rows(
    `SELECT value, since, until FROM rollcall.history
     WHERE key = ${literal(key)} AND user_id IN (SELECT unnest($1::varchar[])) ORDER BY until, since`,
    [user],
  );
  return rows.map(([value, since, until]) => ({
    value: value as string | null,
    since: Number(since),
    until: Number(until),
  }));
}

/** Forgets states that ended before a time, in milliseconds since 1970. */
export async function pruneHistory({ session }: SqlDatabase, before: number): Promise<void> {
  await session.run(`DELETE FROM rollcall.history WHERE ended_at < ${Math.floor(before)}`);
}
