import type { Interval, MemberBatch, RunChange, Standing } from '../port.ts';
import type { ClickHouse } from './session.ts';
import { latestStates, readPlan, readSnapshot, tablesOf } from './tables.ts';
import { literal, literals, whole } from './types.ts';

type Value = string | null;

/** The states of these users in the snapshot, replaced by those in the plan if one is given. */
export async function lookupUsers(
  session: ClickHouse,
  key: string,
  users: readonly string[],
  plan?: string,
): Promise<ReadonlyMap<string, Standing>> {
  const tables = tablesOf(session);
  const { version } = await readSnapshot(session, key);
  const staged = plan === undefined ? null : await readPlan(session, plan);
  const standings = new Map<string, Standing>();
  for (let from = 0; from < users.length; from += LOOKED_UP) {
    const asked = `user_id IN ${literals(users.slice(from, from + LOOKED_UP))}`;
    const found = version === 0 ? [] : await session.rows(latestStates(tables.states(key), version, asked));
    for (const [user, value, present, since] of found) {
      standings.set(String(user), { present: present === true, value: value as Value, since: whole(since) });
    }
    if (!staged) continue;
    const planned = await session.rows(`SELECT user_id, now, value FROM ${tables.plan(staged.plan)} WHERE ${asked}`);
    for (const [user, now, value] of planned) {
      standings.set(String(user), { present: now === true, value: value as Value, since: staged.staged.toVersion });
    }
  }
  return standings;
}

const LOOKED_UP = 10_000;

/** The members of a snapshot, unordered, in batches. */
export async function* readMembers(session: ClickHouse, key: string): AsyncGenerator<MemberBatch> {
  const { version } = await readSnapshot(session, key);
  if (version === 0) return;
  const latest = latestStates(tablesOf(session).states(key), version);
  for await (const rows of session.stream(`SELECT user_id, value, since FROM (${latest}) WHERE present`)) {
    yield toMembers(rows);
  }
}

/** Rows read at once for a page of members: those of leavers and of older versions yield none. */
const LOOKED_AT = 2_000;

/** Members after a user, ordered by id. States are sorted by user, so that little more is read than the page. */
export async function readMemberPage(
  session: ClickHouse,
  key: string,
  after: string,
  limit: number,
): Promise<MemberBatch> {
  const { version } = await readSnapshot(session, key);
  const states = tablesOf(session).states(key);
  const found: unknown[][] = [];
  for (let from = after; version > 0 && found.length < limit; ) {
    const begin = `user_id > ${literal(from)}`;
    const ahead = await session.rows(
      `SELECT user_id FROM ${states} WHERE ${begin} ORDER BY user_id LIMIT ${LOOKED_AT}`,
    );
    const last = ahead.at(-1)?.[0];
    if (last === undefined) break;
    const latest = latestStates(states, version, `${begin} AND user_id <= ${literal(String(last))}`);
    found.push(...(await session.rows(`SELECT user_id, value, since FROM (${latest}) WHERE present ORDER BY user_id`)));
    from = String(last);
  }
  return toMembers(found.slice(0, limit));
}

function toMembers(rows: readonly (readonly unknown[])[]): MemberBatch {
  return {
    userIds: rows.map(([user]) => String(user)),
    values: rows.map(([, value]) => value as Value),
    since: rows.map(([, , since]) => whole(since)),
  };
}

/** Changes of a version, unordered. */
export async function* readRunChanges(
  session: ClickHouse,
  key: string,
  version: number,
): AsyncGenerator<readonly RunChange[]> {
  const query = await changesQuery(session, key, version, 'true');
  for await (const batch of session.stream(query)) yield toChanges(batch);
}

export async function readRunChangePage(
  session: ClickHouse,
  key: string,
  version: number,
  after: string,
  limit: number,
): Promise<readonly RunChange[]> {
  const query = await changesQuery(session, key, version, `user_id > ${literal(after)}`);
  return toChanges(await session.rows(`${query} ORDER BY user_id LIMIT ${limit}`));
}

/** A query for the states that ended with a version, merged with those that began. */
async function changesQuery(session: ClickHouse, key: string, version: number, condition: string): Promise<string> {
  const tables = tablesOf(session);
  const current = await readSnapshot(session, key);
  const past = (edge: 'since' | 'until', began: 0 | 1) => `SELECT user_id, ${began === 1 ? 'value' : 'NULL'} AS value,
    ${began} AS began, ${1 - began} AS ended FROM ${tables.history}
    WHERE key = ${literal(key)} AND ${edge} = ${version} AND ${condition}`;
  const present = `SELECT user_id, value, 1 AS began, 0 AS ended FROM ${tables.states(key)}
    WHERE version = ${version} AND version <= ${current.version} AND present AND ${condition}`;
  const rows = [past('since', 1), past('until', 0), ...(current.version === 0 ? [] : [present])];
  return `SELECT user_id, max(ended), max(began), maxIf(value, began = 1)
    FROM (${rows.join(' UNION ALL ')}) GROUP BY user_id`;
}

function toChanges(rows: readonly (readonly unknown[])[]): readonly RunChange[] {
  return rows.map(([user, was, is, value]) => ({
    userId: String(user),
    change: Number(was) === 0 ? 'entered' : Number(is) === 1 ? 'changed' : 'exited',
    value: value as Value,
  }));
}

/** A user's past states, oldest first. */
export async function readHistory(session: ClickHouse, key: string, user: string): Promise<readonly Interval[]> {
  const rows = await session.rows(`SELECT value, since, until FROM ${tablesOf(session).history} FINAL
    WHERE key = ${literal(key)} AND user_id = ${literal(user)} ORDER BY ended_at, until, since`);
  return rows.map(([value, since, until]) => ({ value: value as Value, since: whole(since), until: whole(until) }));
}
