import type { Standing, UserInSnapshot } from '../port.ts';
import { toInterval } from './history.ts';
import { rowsIfThere } from './ownership.ts';
import { literal } from './plan-query.ts';
import type { SqlDatabase, SqlSession } from './session.ts';
import { hasRegistry, holdPlans, ID_HASH, readSnapshot, readStaged, tablesOf } from './tables.ts';

const ASKED = 'user_id IN (SELECT unnest($1::varchar[]))';

/** The states of these users in the snapshot, replaced by those in the plan if one is given. */
export async function lookupUsers(
  database: SqlDatabase,
  key: string,
  users: readonly string[],
  plan?: string,
): Promise<ReadonlyMap<string, Standing>> {
  if (users.length === 0) return new Map();
  const standings = await lookupSnapshot(database, key, users);
  if (plan === undefined) return standings;
  return new Map([...standings, ...(await lookupPlan(database, plan, users))]);
}

async function lookupSnapshot(
  database: SqlDatabase,
  key: string,
  users: readonly string[],
): Promise<Map<string, Standing>> {
  const { session } = database;
  if ((await readSnapshot(database, key)).version === 0) return new Map();
  const tables = tablesOf(session);
  const rows = await session.rows(
    `SELECT user_id, TRUE, value, since FROM ${tables.members(key)} WHERE ${ASKED}
     UNION ALL SELECT user_id, FALSE, NULL, since FROM ${tables.leavers(key)} WHERE ${ASKED}`,
    users,
  );
  return new Map(rows.map(toStanding));
}

/** Snapshots that one query reads. */
const AT_ONCE = 100;

/** A user in all of these snapshots: in few queries of few tables, since to plan one takes as long as to run it. */
export async function lookupEverywhere(
  database: SqlDatabase,
  keys: readonly string[],
  user: string,
): Promise<ReadonlyMap<string, UserInSnapshot>> {
  const { session } = database;
  const tables = tablesOf(session);
  const read = async (condition: string, texts?: readonly string[]) => {
    const find = async (list: readonly string[], present: boolean, rows: (key: string) => string) => {
      const found: [string, Standing][] = [];
      for (let from = 0; from < list.length; from += AT_ONCE) {
        const some = list.slice(from, from + AT_ONCE);
        const query = some.map((key, place) => `SELECT ${place}, user_id, ${rows(key)} WHERE ${condition}`);
        // Sorted rows come in one chunk. DuckDB would make one for each table: garbage that doubles the pauses for it.
        for (const [place, id, value, since] of await session.rows(`${query.join(' UNION ALL ')} ORDER BY 1`, texts)) {
          const standing = { present, value: value as string | null, since: Number(since) };
          if (id === user) found.push([some[Number(place)] ?? '', standing]);
        }
      }
      return found;
    };
    const query = `SELECT key, version, NULL, NULL, NULL, NULL FROM ${tables.snapshots} UNION ALL
      SELECT key, NULL, user_id, value, since, until FROM ${tables.history} WHERE ${condition}`;
    const rows = await rowsIfThere(database, hasRegistry, query, texts);
    const versions = new Map(
      rows.flatMap(([key, version]) => (version === null ? [] : [[String(key), Number(version)] as const])),
    );
    const known = keys.filter((key) => versions.has(key));
    const members = new Map(await find(known, true, (key) => `value, since FROM ${tables.members(key)}`));
    const rest = known.filter((key) => !members.has(key));
    const leavers = await find(rest, false, (key) => `NULL, since FROM ${tables.leavers(key)}`);
    return {
      versions,
      standings: new Map([...members, ...leavers]),
      past: rows.filter(([, , id]) => id === user),
    };
  };
  const readIds = () => read('user_id = ($1::varchar[])[1]', [user]);
  const hash = database.dialect.idHash?.of(user);
  // The hash alone: with a second condition DuckDB reads all ids. Tables that no run has written to since there are hashes lack them.
  const { versions, standings, past } = await (hash === undefined
    ? readIds()
    : read(`${ID_HASH} = ${hash}`).catch(readIds));
  const intervals = Map.groupBy(past, ([key]) => String(key));
  return new Map(
    keys.map((key) => [
      key,
      {
        version: versions.get(key) ?? 0,
        standing: standings.get(key),
        past: (intervals.get(key) ?? [])
          .map(([, , , ...interval]) => toInterval(interval))
          .toSorted((one, other) => one.until - other.until || one.since - other.since),
      },
    ]),
  );
}

async function lookupPlan(
  database: SqlDatabase,
  plan: string,
  users: readonly string[],
): Promise<Map<string, Standing>> {
  const { session } = database;
  const staged = await readStaged(database, plan);
  if (!staged) return new Map();
  const rows = await session.rows(
    `SELECT user_id, now, value, ${staged.toVersion} FROM ${tablesOf(session).plan(plan)} WHERE n >= 0 AND ${ASKED}`,
    users,
  );
  return new Map(rows.map(toStanding));
}

function toStanding([user, present, value, since]: unknown[]): [string, Standing] {
  return [String(user), { present: present === true, value: value as string | null, since: Number(since) }];
}

/** Removes users from history, snapshots, leavers and plans. */
export async function forgetUsers(
  session: SqlSession,
  users: readonly string[],
  keys: readonly string[] | null,
): Promise<void> {
  if (keys?.length === 0) return;
  const scope = keys === null ? '' : ` WHERE key IN (${keys.map(literal).join(', ')})`;
  await holdPlans(session, scope);
  const tables = tablesOf(session);
  const list = users.map(literal).join(', ');
  await session.run(`DELETE FROM ${tables.history} WHERE user_id IN (${list})${scope.replace(' WHERE', ' AND')}`);
  for (const [key] of await session.rows(`SELECT key FROM ${tables.snapshots}${scope}`)) {
    const members = tables.members(String(key));
    const gone = await session.run(`DELETE FROM ${members} WHERE user_id IN (${list})`);
    await session.run(`DELETE FROM ${tables.leavers(String(key))} WHERE user_id IN (${list})`);
    if (gone > 0) {
      await session.run(
        `UPDATE ${tables.snapshots} SET members = members - ${gone} WHERE key = ${literal(String(key))}`,
      );
    }
  }
  for (const [plan] of await session.rows(`SELECT plan FROM ${tables.plans}${scope}`)) {
    await session.run(`DELETE FROM ${tables.plan(String(plan))} WHERE user_id IN (${list})`);
  }
}
