import type { LiveChange, LiveOrigin } from '../live.ts';
import { listed } from '../records/listed.ts';
import type { Session } from '../records/session.ts';
import { raw, type Sql, sql } from '../sql.ts';

type MemberChange = Omit<LiveChange, keyof LiveOrigin> & Partial<LiveOrigin>;

/** Changes as rows `v` of a FROM clause: (name, who, next, version, cause, changed_at). */
export function givenChanges({ dialect }: Session, changes: readonly MemberChange[]): Sql {
  const { from, text, number } = listed(
    dialect,
    changes.map(({ key, user, current, version, cause = null, changedAt = null }) => {
      return [key, user, current, version, cause, changedAt];
    }),
  );
  return sql`(SELECT ${text(0)} AS name, ${text(1)} AS who, ${text(2)} AS next, ${number(3)} AS version,
    ${text(4)} AS cause, ${number(5)} AS changed_at FROM ${from}) AS v`;
}

/**
 * Saves what is computed of members, and what is sent of it if a version sends it.
 *
 * @param given - as `givenChanges` makes it
 * @param quiet - audiences whose members get other columns without a message
 */
export async function saveMembers({ run, dialect }: Session, given: Sql, quiet: readonly string[]): Promise<void> {
  await run(sql`INSERT INTO rollcall.live_member (key, user_id, current, told, since, behind, cause, changed_at)
    SELECT v.name, v.who, v.next, CASE WHEN v.version IS NULL THEN NULL ELSE v.next END, coalesce(v.version, 0),
      CASE WHEN v.version IS NULL AND v.next IS NOT NULL THEN 1 ELSE 0 END, CASE WHEN v.version IS NULL THEN v.cause END,
      CASE WHEN v.version IS NULL THEN v.changed_at END
    FROM ${given} WHERE true
    ON CONFLICT (key, user_id) DO UPDATE SET current = excluded.current, cause = excluded.cause,
      changed_at = excluded.changed_at,
      told = CASE WHEN excluded.since > 0 THEN excluded.current ELSE live_member.told END,
      since = CASE WHEN excluded.since > 0 THEN excluded.since ELSE live_member.since END,
      behind = CASE WHEN excluded.since > 0 OR excluded.current IS NOT DISTINCT FROM live_member.told THEN 0 ELSE 1 END`);
  if (quiet.length === 0) return;
  await run(sql`UPDATE rollcall.live_member SET told = current, behind = 0, cause = NULL, changed_at = NULL
    FROM ${given} WHERE key = v.name AND user_id = v.who AND told IS NOT NULL AND current IS NOT NULL
      AND told IS DISTINCT FROM current AND ${dialect.oneOf(raw('key'), 'text', quiet)}`);
}
