import { sql } from '../sql.ts';
import type { Session } from './session.ts';

/** The most that are kept. Holders of a token could fill the store with sign-outs otherwise. */
const KEPT = 1_000;

export async function spendPass({ run }: Session, hash: string, endsAt: number, now: number): Promise<boolean> {
  await run(sql`DELETE FROM rollcall.spent_pass WHERE ends_at <= ${now}`);
  const added = await run(sql`INSERT INTO rollcall.spent_pass (hash, ends_at)
    SELECT CAST(${hash} AS text), CAST(${endsAt} AS bigint) WHERE (SELECT count(*) FROM rollcall.spent_pass) < ${KEPT} ON CONFLICT DO NOTHING`);
  return added > 0;
}

export async function isSpent({ rows }: Session, hash: string): Promise<boolean> {
  return (await rows(sql`SELECT 1 FROM rollcall.spent_pass WHERE hash = ${hash}`)).length > 0;
}
