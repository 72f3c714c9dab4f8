import type { Fence } from '../fleet.ts';
import type {
  LiveAudience,
  LiveCause,
  LiveCommit,
  LiveMember,
  LiveOrigin,
  LivePast,
  LiveWhich,
  UserCause,
  UserPast,
} from '../live.ts';
import { checkEpoch } from '../records/deletions.ts';
import { checkFence } from '../records/fence.ts';
import { listed } from '../records/listed.ts';
import type { Session } from '../records/session.ts';
import { raw, sql } from '../sql.ts';
import { givenChanges, saveMembers } from './changes.ts';
import { dropRows, saveContents, saveNamed, saveRows } from './rows.ts';
import { liveMoved, moveSource, serve } from './source-states.ts';

type OriginRow = readonly [cause: string | null, changedAt: number | null];
type MemberRow = readonly [
  key: string,
  user: string,
  current: string | null,
  told: string | null,
  since: number,
  ...OriginRow,
];

const memberOf = ([key, user, current, told, since, cause, changedAt]: MemberRow): LiveMember => {
  return { key, user, current, told, since, cause, changedAt };
};
const COLUMNS = raw('key, user_id, current, told, since, cause, changed_at');
const NO_ORIGIN: LiveOrigin = { cause: null, changedAt: null };

export async function membersOf(
  { rows, dialect }: Session,
  users: readonly string[],
  keys: readonly string[],
): Promise<LiveMember[]> {
  if (users.length === 0) return [];
  const asked = new Set(keys);
  // By user alone: to look for each user under each key would take many times as long.
  const found =
    await rows<MemberRow>(sql`SELECT ${COLUMNS} FROM rollcall.live_member ${dialect.using('live_member_user')}
    WHERE ${dialect.oneOf(raw('user_id'), 'text', users)}`);
  return found.flatMap((row) => (asked.has(row[0]) ? memberOf(row) : []));
}

/** @throws RollcallError `fence_lost`, `epoch_moved`, `live_moved` */
export function commitStep(session: Session, commit: LiveCommit): Promise<void> {
  return session.transaction(async (session) => {
    const { fence, epoch, state, serves, named, rows, contents, gone, changes, told, holds } = commit;
    await checkFence(session, fence);
    await checkEpoch(session, epoch);
    await moveSource(session, commit);
    if (serves) await serve(session, state);
    if (named) await saveNamed(session, state, named);
    await saveRows(session, state, rows);
    await saveContents(session, state, contents);
    await dropRows(session, state, gone);
    if (told.length > 0) await advance(session, told);
    if (changes.length > 0) await change(session, commit);
    for (const [key, hold] of holds) {
      await session.run(sql`UPDATE rollcall.live_audience SET hold = ${hold} WHERE key = ${key} AND hold IS NULL`);
    }
  });
}

/** All of these audiences, or none: another may have put one of them on hold. */
async function advance({ run, dialect }: Session, told: LiveCommit['told']): Promise<void> {
  const { from, text, number } = listed(
    dialect,
    told.map(({ key, from, to, members, record }) => [key, from, to, members, record]),
  );
  const moved = await run(sql`UPDATE rollcall.live_audience SET version = v.next, members = members + v.more
    FROM (SELECT ${text(0)} AS name, ${number(1)} AS last, ${number(2)} AS next, ${number(3)} AS more FROM ${from}) AS v
    WHERE key = v.name AND version = v.last AND hold IS NULL`);
  if (moved < told.length) throw liveMoved();
  await run(sql`INSERT INTO rollcall.audience (key, record) SELECT ${text(0)}, ${text(4)} FROM ${from} WHERE true
    ON CONFLICT (key) DO UPDATE SET record = excluded.record`);
}

async function change(session: Session, { changes, quiet, at }: LiveCommit): Promise<void> {
  const { run } = session;
  const given = givenChanges(session, changes);
  await run(sql`INSERT INTO rollcall.live_past (key, user_id, value, since, until, ended_at)
    SELECT m.key, m.user_id, m.told, m.since, v.version, ${at}
    FROM ${given} JOIN rollcall.live_member AS m ON m.key = v.name AND m.user_id = v.who
    WHERE m.told IS NOT NULL AND v.version IS NOT NULL`);
  await run(sql`INSERT INTO rollcall.live_cause (key, user_id, version, at, change, cause, changed_at)
    SELECT v.name, v.who, v.version, ${at},
      CASE WHEN v.next IS NULL THEN 'exited' WHEN m.told IS NULL THEN 'entered' ELSE 'changed' END, v.cause,
      coalesce(v.changed_at, ${at})
    FROM ${given} LEFT JOIN rollcall.live_member AS m ON m.key = v.name AND m.user_id = v.who
    WHERE v.version IS NOT NULL`);
  await saveMembers(session, given, quiet);
}

type AudienceRow = readonly [string, string, string, number, number, string | null, number];

export async function audiences({ rows }: Session): Promise<LiveAudience[]> {
  const found = await rows<AudienceRow>(
    sql`SELECT key, source, definition, version, members, hold, judged_from FROM rollcall.live_audience ORDER BY key`,
  );
  return found.map(([key, source, definition, version, members, hold, judgedFrom]) => {
    return { key, source, definition, version, members, hold, judgedFrom };
  });
}

export async function audiencesBehind({ rows }: Session): Promise<string[]> {
  const found = await rows<[string]>(sql`SELECT key FROM rollcall.live_audience AS a
    WHERE EXISTS (SELECT 1 FROM rollcall.live_member AS m WHERE m.key = a.key AND m.behind = 1)`);
  return found.map(([key]) => key);
}

export function addAudience(
  session: Session,
  key: string,
  source: string,
  definition: string,
  hold: string | null,
  fence: Fence,
): Promise<void> {
  return session.transaction(async (session) => {
    await checkFence(session, fence);
    await session.run(sql`INSERT INTO rollcall.live_audience (key, source, definition, version, members, hold, judged_from)
      VALUES (${key}, ${source}, ${definition}, 0, 0, ${hold}, 0)
      ON CONFLICT (key) DO UPDATE SET source = excluded.source, definition = excluded.definition, hold = coalesce(live_audience.hold, excluded.hold)`);
  });
}

export async function holdAudience({ run }: Session, key: string, hold: string | null, judgedFrom: number | null) {
  await run(sql`UPDATE rollcall.live_audience SET hold = ${hold}, judged_from = coalesce(${judgedFrom}, judged_from)
    WHERE key = ${key}`);
}

export async function countChanges({ rows }: Session, key: string, since: number, until: number) {
  const count = (change: string) => sql`count(CASE WHEN change = ${change} THEN 1 END)`;
  const steps = sql`SELECT version, ${count('entered')} AS entered, ${count('exited')} AS exited,
    ${count('changed')} AS changed FROM rollcall.live_cause
    WHERE key = ${key} AND at > ${since} AND at <= ${until} GROUP BY version`;
  // Going back in time: how many more there were before each step than there are now.
  const sizes = sql`SELECT entered, exited, changed, sum(exited - entered) OVER (ORDER BY version DESC) AS more FROM (${steps}) AS steps`;
  const whole = (of: string) => raw(`CAST(coalesce(${of}, 0) AS bigint)`);
  const [[entered = 0, exited = 0, changed = 0, more = 0] = []] = await rows<[number, number, number, number]>(sql`
    SELECT ${whole('sum(entered)')}, ${whole('sum(exited)')}, ${whole('sum(changed)')}, ${whole('max(more)')} FROM (${sizes}) AS sizes`);
  return { entered, exited, changed, more: Math.max(0, more) };
}

const WHICH = { told: raw('told IS NOT NULL'), behind: raw('behind = 1'), all: raw('true') } as const;

export async function memberPage(
  { rows }: Session,
  key: string,
  which: LiveWhich,
  after: string,
  limit: number,
): Promise<LiveMember[]> {
  const found = await rows<MemberRow>(sql`SELECT ${COLUMNS} FROM rollcall.live_member
    WHERE key = ${key} AND user_id > ${after} AND ${WHICH[which]} ORDER BY user_id LIMIT ${limit}`);
  return found.map(memberOf);
}

export async function changesBehind({ rows }: Session, key: string, limit: number): Promise<LiveMember[]> {
  const found = await rows<MemberRow>(sql`
    SELECT ${COLUMNS} FROM rollcall.live_member WHERE key = ${key} AND behind = 1 ORDER BY user_id LIMIT ${limit}`);
  return found.map(memberOf);
}

export async function pastValues({ rows, dialect }: Session, key: string, user: string): Promise<LivePast[]> {
  const found = await rows<[string, number, number]>(sql`SELECT value, since, until FROM rollcall.live_past
      ${dialect.using('live_past_user')} WHERE key = ${key} AND user_id = ${user} ORDER BY until`);
  return found.map(([value, since, until]) => ({ value, since, until }));
}

export async function causesOf({ rows }: Session, key: string, user: string): Promise<LiveCause[]> {
  const found = await rows<[number, number, ...OriginRow]>(sql`SELECT version, at, cause, changed_at
    FROM rollcall.live_cause WHERE key = ${key} AND user_id = ${user} ORDER BY version`);
  return found.map(([version, at, cause, changedAt]) => ({ version, at, cause, changedAt }));
}

export async function pastSince({ rows, dialect }: Session, key: string, version: number, users: readonly string[]) {
  const found = await rows<[string, string, number, number]>(sql`SELECT user_id, value, since, until
    FROM rollcall.live_past ${dialect.using('live_past_user')}
    WHERE ${dialect.oneOf(raw('user_id'), 'text', users)} AND key = ${key} AND until > ${version}`);
  return found.map(([user, value, since, until]): UserPast => ({ user, value, since, until }));
}

export async function causesSince({ rows, dialect }: Session, key: string, after: number, users: readonly string[]) {
  const found = await rows<[string, number, ...OriginRow]>(sql`SELECT user_id, version, cause, changed_at
    FROM rollcall.live_cause ${dialect.using('live_cause_user')}
    WHERE ${dialect.oneOf(raw('user_id'), 'text', users)} AND key = ${key} AND version > ${after}`);
  return found.map(([user, version, cause, changedAt]): UserCause => ({ user, version, cause, changedAt }));
}

export async function changedBy({ rows }: Session, key: string, version: number, after: string, limit: number) {
  // The first users of all three are among the first of each.
  const part = (columns: string, table: string, edge: string) => sql`SELECT * FROM (
    SELECT user_id, ${raw(columns)} FROM rollcall.${raw(table)}
    WHERE key = ${key} AND ${raw(edge)} = ${version} AND user_id > ${after} ORDER BY user_id LIMIT ${limit}) AS part`;
  const found = await rows<[string, string | null, string | null]>(sql`
    SELECT user_id, max(next), max(last) FROM (
      ${part('told AS next, NULL AS last', 'live_member', 'since')}
      UNION ALL ${part('value, NULL', 'live_past', 'since')}
      UNION ALL ${part('NULL, value', 'live_past', 'until')}
    ) AS changed GROUP BY user_id ORDER BY user_id LIMIT ${limit}`);
  return found.map(([user, current, told]): LiveMember => ({ key, user, current, told, since: version, ...NO_ORIGIN }));
}

export async function pruneChanges({ run }: Session, before: number): Promise<void> {
  await run(sql`DELETE FROM rollcall.live_past WHERE ended_at < ${before}`);
  await run(sql`DELETE FROM rollcall.live_cause WHERE at < ${before}`);
}
