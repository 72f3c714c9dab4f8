import type { AuditFilter, AuditRecord, NewAudit } from '../port.ts';
import { raw, sql, where } from '../sql.ts';
import type { Session } from './session.ts';

export async function beginAudit({ rows, time }: Session, { who, action, target, at }: NewAudit): Promise<number> {
  const [row] = await rows<[number]>(sql`INSERT INTO rollcall.audit (at, who, action, target)
    VALUES (${time.atWall(at)}, ${who}, ${action}, ${target}) RETURNING id`);
  return row?.[0] ?? 0;
}

export async function endAudit({ run }: Session, id: number, outcome: string): Promise<void> {
  await run(sql`UPDATE rollcall.audit SET outcome = ${outcome} WHERE id = ${id}`);
}

type AuditRow = readonly [
  id: number,
  at: number,
  who: string,
  action: string,
  target: string | null,
  outcome: string | null,
];

/** Newest first. */
export async function audits({ rows, time }: Session, filter: AuditFilter): Promise<AuditRecord[]> {
  const { who, action, since, before, limit } = filter;
  const conditions = where(
    who === undefined ? null : sql`who = ${who}`,
    action === undefined ? null : sql`action = ${action}`,
    since === undefined ? null : sql`at >= ${time.atWall(since)}`,
    before === undefined ? null : sql`id < ${before}`,
  );
  const found = await rows<AuditRow>(sql`SELECT id, ${time.read(raw('at'))}, who, action, target, outcome
    FROM rollcall.audit ${conditions} ORDER BY id DESC LIMIT ${limit}`);
  return found.map(([id, at, who, action, target, outcome]) => ({
    id,
    at: time.wall(at),
    who,
    action,
    target,
    outcome,
  }));
}

/** Drops older records, at most `limit`: the oldest have the smallest ids. */
export function pruneAudits({ run, time }: Session, before: number, limit: number): Promise<number> {
  return run(sql`DELETE FROM rollcall.audit WHERE id IN (
    SELECT id FROM rollcall.audit ORDER BY id LIMIT ${limit}) AND at < ${time.atWall(before)}`);
}
