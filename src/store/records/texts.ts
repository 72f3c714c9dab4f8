import { raw, sql } from '../sql.ts';
import { withoutUsers } from '../users.ts';
import { forgetDiscards } from './discards.ts';
import type { Session } from './session.ts';
import { namesAny } from './traces.ts';

/** The field of a record whose text quotes errors. Others have names of ours, which an id may equal. */
const QUOTING = { run: ['reason'], alert: ['about', 'message'] } as const;

/** Removes users from texts that quote engines and endpoints, and from samples. */
export async function forgetTexts(
  session: Session,
  users: readonly string[],
  sources: readonly string[] | null,
): Promise<void> {
  await forgetDiscards(session, users, sources);
  await session.transaction(async (session) => {
    await session.run(
      sql`UPDATE rollcall.endpoint SET dead_answer = NULL WHERE ${namesAny(session, raw('dead_answer'), users)}`,
    );
    for (const [name, path] of Object.entries(QUOTING)) {
      const table = raw(`rollcall.${name}`);
      const naming = await session.rows<[string, string]>(
        sql`SELECT id, record FROM ${table} WHERE ${namesAny(session, raw('record'), users)}`,
      );
      for (const [id, record] of naming) {
        const left = JSON.stringify(withoutAt(JSON.parse(record), path, users));
        await session.run(sql`UPDATE ${table} SET record = ${left} WHERE id = ${id}`);
      }
    }
  });
}

function withoutAt(value: unknown, [field, ...path]: readonly string[], users: readonly string[]): unknown {
  if (field === undefined) return typeof value === 'string' ? withoutUsers(value, users) : value;
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, field)) return value;
  return { ...value, [field]: withoutAt((value as Record<string, unknown>)[field], path, users) };
}
