import { raw, sql } from '../sql.ts';
import { withoutUsers } from '../users.ts';
import { forgetDiscards } from './discards.ts';
import type { Session } from './session.ts';
import { namesAny } from './traces.ts';

/** Removes users from texts of runs and alerts, where errors of engines and endpoints are quoted, and from samples. */
export async function forgetTexts(
  session: Session,
  users: readonly string[],
  sources: readonly string[] | null,
): Promise<void> {
  await forgetDiscards(session, users, sources);
  await session.transaction(async (session) => {
    for (const table of [raw('rollcall.run'), raw('rollcall.alert')]) {
      const naming = await session.rows<[string, string]>(
        sql`SELECT id, record FROM ${table} WHERE ${namesAny(session, raw('record'), users)}`,
      );
      for (const [id, record] of naming)
        await session.run(sql`UPDATE ${table} SET record = ${withoutUsers(record, users)} WHERE id = ${id}`);
    }
  });
}
