import type { LivePlan, LivePlanRow } from '../live.ts';
import { listed } from '../records/listed.ts';
import type { Session } from '../records/session.ts';
import { raw, type Sql, sql } from '../sql.ts';

export async function savePlan({ run }: Session, plan: string, { key, toVersion, record }: LivePlan): Promise<void> {
  await run(sql`INSERT INTO rollcall.live_plan (plan, key, to_version, record) VALUES (${plan}, ${key}, ${toVersion}, ${record})
    ON CONFLICT (plan) DO UPDATE SET record = excluded.record`);
}

export async function findPlan({ rows }: Session, plan: string): Promise<LivePlan | null> {
  const [row] = await rows<[string, number, string]>(
    sql`SELECT key, to_version, record FROM rollcall.live_plan WHERE plan = ${plan}`,
  );
  return row ? { key: row[0], toVersion: row[1], record: row[2] } : null;
}

export async function plansOf({ rows }: Session, key: string): Promise<string[]> {
  return (await rows<[string]>(sql`SELECT plan FROM rollcall.live_plan WHERE key = ${key}`)).map(([plan]) => plan);
}

export async function addToPlan({ run, dialect }: Session, plan: string, rows: readonly LivePlanRow[]): Promise<void> {
  const { from, text, number } = listed(
    dialect,
    rows.map(({ position, user, value, told, cause, changedAt }) => [position, user, value, told, cause, changedAt]),
  );
  await run(sql`INSERT INTO rollcall.live_plan_row (plan, position, user_id, value, told, cause, changed_at)
    SELECT ${plan}, ${number(0)}, ${text(1)}, ${text(2)}, ${text(3)}, ${text(4)}, ${number(5)} FROM ${from}`);
}

export async function planRows({ rows }: Session, plan: string, after: number, limit: number): Promise<LivePlanRow[]> {
  const found = await rows<[number, string, string | null, string | null, string | null, number | null]>(
    sql`SELECT position, user_id, value, told, cause, changed_at FROM rollcall.live_plan_row
      WHERE plan = ${plan} AND position > ${after} ORDER BY position LIMIT ${limit}`,
  );
  return found.map(([position, user, value, told, cause, changedAt]) => {
    return { position, user, value, told, cause, changedAt };
  });
}

export async function cutPlan({ run }: Session, plan: string, after: number): Promise<void> {
  await run(sql`DELETE FROM rollcall.live_plan_row WHERE plan = ${plan} AND position > ${after}`);
}

export function dropPlan(session: Session, plan: string): Promise<void> {
  return session.transaction(async ({ run }) => {
    await run(sql`DELETE FROM rollcall.live_plan_row WHERE plan = ${plan}`);
    await run(sql`DELETE FROM rollcall.live_plan WHERE plan = ${plan}`);
  });
}

/** Again is harmless: who has the version already is passed over. */
export function tellPlan(session: Session, plan: string, after: number, upTo: number, at: number): Promise<void> {
  return session.transaction(async ({ run }) => {
    const rows = sql`rollcall.live_plan_row AS p JOIN rollcall.live_plan AS l ON l.plan = p.plan`;
    const these = sql`p.plan = ${plan} AND p.position > ${after} AND p.position <= ${upTo}`;
    await run(sql`INSERT INTO rollcall.live_past (key, user_id, value, since, until, ended_at)
      SELECT m.key, m.user_id, m.told, m.since, l.to_version, ${at}
      FROM ${rows} JOIN rollcall.live_member AS m ON m.key = l.key AND m.user_id = p.user_id
      WHERE ${these} AND m.told IS NOT NULL AND m.since < l.to_version AND m.told IS DISTINCT FROM p.value`);
    // The guard counts changes of runs too. A first sync is no change.
    await run(sql`INSERT INTO rollcall.live_cause (key, user_id, version, at, change, cause, changed_at)
      SELECT m.key, m.user_id, l.to_version, ${at},
        CASE WHEN p.value IS NULL THEN 'exited' WHEN m.told IS NULL THEN 'entered' ELSE 'changed' END, p.cause,
        coalesce(p.changed_at, ${at})
      FROM ${rows} JOIN rollcall.live_member AS m ON m.key = l.key AND m.user_id = p.user_id
      JOIN rollcall.live_audience AS a ON a.key = l.key AND a.version > 0
      WHERE ${these} AND m.since < l.to_version AND m.told IS DISTINCT FROM p.value`);
    await run(sql`UPDATE rollcall.live_member SET told = v.value, since = v.to_version,
        cause = CASE WHEN current IS NOT DISTINCT FROM v.value THEN NULL ELSE cause END,
        changed_at = CASE WHEN current IS NOT DISTINCT FROM v.value THEN NULL ELSE changed_at END,
        behind = CASE WHEN current IS NOT DISTINCT FROM v.value THEN 0 ELSE 1 END
      FROM (SELECT l.key AS name, l.to_version, p.user_id AS who, p.value FROM ${rows} WHERE ${these}) AS v
      WHERE key = v.name AND user_id = v.who AND since < v.to_version AND told IS DISTINCT FROM v.value`);
  });
}

export async function advanceAudience({ run }: Session, key: string, version: number): Promise<void> {
  await run(sql`UPDATE rollcall.live_audience SET version = ${version}, members = (
      SELECT count(*) FROM rollcall.live_member AS m WHERE m.key = live_audience.key AND m.told IS NOT NULL)
    WHERE key = ${key}`);
}

/** The computed state stays: an audience that is retired may begin anew. */
export function dropAudience(session: Session, key: string): Promise<void> {
  return session.transaction(async ({ run }) => {
    await run(
      sql`DELETE FROM rollcall.live_plan_row WHERE plan IN (SELECT plan FROM rollcall.live_plan WHERE key = ${key})`,
    );
    await run(sql`DELETE FROM rollcall.live_plan WHERE key = ${key}`);
    await run(sql`DELETE FROM rollcall.live_member WHERE key = ${key}`);
    await run(sql`DELETE FROM rollcall.live_audience WHERE key = ${key}`);
  });
}

/** Plans keep no trace of users who are forgotten. */
export function forgetUsers(session: Session, users: readonly string[], keys: readonly string[] | null): Promise<void> {
  return session.transaction(async ({ run, dialect }) => {
    const theirs = dialect.oneOf(raw('user_id'), 'text', users);
    const these = (column: Sql) => (keys === null ? raw('true') : dialect.oneOf(column, 'text', keys));
    const key = these(raw('key'));
    await run(sql`UPDATE rollcall.live_audience SET members = members - (SELECT count(*) FROM rollcall.live_member AS m
      WHERE m.key = live_audience.key AND m.told IS NOT NULL AND ${theirs}) WHERE ${key}`);
    for (const table of ['live_member', 'live_past', 'live_cause']) {
      await run(sql`DELETE FROM rollcall.${raw(table)} WHERE ${theirs} AND ${key}`);
    }
    await run(sql`DELETE FROM rollcall.live_plan_row ${dialect.using('live_plan_row_user')} WHERE ${theirs}
      AND plan IN (SELECT plan FROM rollcall.live_plan WHERE ${key})`);
  });
}
