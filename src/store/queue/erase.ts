import type { DeadReason } from '../../kernel/dead-reasons.ts';
import { CounterChanges } from '../changes.ts';
import { namesAny, ofUsers, pageOf } from '../records/traces.ts';
import { raw, type Sql, sql } from '../sql.ts';
import { ALERT_SOURCE, CLAIMED } from '../states.ts';
import { withoutUsers } from '../users.ts';
import type { Name, QueueSession } from './session.ts';

export function erase(
  session: QueueSession,
  users: readonly string[],
  sources: readonly string[] | null,
  cursor: string | null,
): Promise<{ readonly cursor: string | null; readonly inFlight: number }> {
  return session.transaction(async (session) => {
    const { trace, range, next } = await pageOf(session, cursor);
    const theirs = ofUsers(session, trace.hasBody, users, sources);
    const changes = new CounterChanges<Name>();
    const left = range === null ? 0 : await eraseFrom(session, trace.table, sql`${range} AND ${theirs}`, changes);
    if (range !== null) await eraseFromAlerts(session, trace, range, users);
    await session.write(changes);
    // Only on the last page, since it scans everything claimed.
    const posting = next === null ? await beingPosted(session, ofUsers(session, true, users, sources)) : 0;
    return { cursor: next, inFlight: Math.max(left, posting) };
  });
}

/** Resolves to the number of deliveries left because they are being posted. */
async function eraseFrom(
  { rows, run, dialect }: QueueSession,
  table: string,
  theirs: Sql,
  changes: CounterChanges<Name>,
): Promise<number> {
  const from = raw(`rollcall.${table}`);
  if (table === 'delivery') {
    // Lock first, so that deliveries claimed or released at this moment are either erased or counted, never neither.
    const found = await rows<[id: number, state: number]>(
      sql`SELECT id, state FROM ${from} WHERE ${theirs} ${dialect.forUpdate}`,
    );
    const free = found.filter(([, state]) => state !== CLAIMED).map(([id]) => id);
    const gone = await rows<[Name, Name | null, tries: number]>(
      sql`DELETE FROM ${from} WHERE ${dialect.oneOf(raw('id'), 'id', free)} RETURNING destination, run, tries`,
    );
    for (const delivery of gone) changes.takenBack(...delivery);
    return found.length - free.length;
  }
  if (table === 'dead_letter') {
    const gone = await rows<[Name, Name | null, DeadReason]>(
      sql`DELETE FROM ${from} WHERE ${theirs} RETURNING destination, run, reason`,
    );
    for (const letter of gone) changes.letterGone(...letter, 'superseded');
  } else await run(sql`DELETE FROM ${from} WHERE ${theirs}`);
  return 0;
}

/** Alerts quote errors, which may name a user. They lose the id, not themselves. */
async function eraseFromAlerts(
  session: QueueSession,
  { table, hasBody }: { readonly table: string; readonly hasBody: boolean },
  range: Sql,
  users: readonly string[],
): Promise<void> {
  const [from, text] = [raw(`rollcall.${table}`), raw(hasBody ? 'body' : 'response')];
  const naming = await session.rows<[number, string]>(sql`SELECT id, ${text} FROM ${from} WHERE ${range}
    AND source = ${session.dialect.name(ALERT_SOURCE)} AND ${namesAny(session, text, users)}`);
  for (const [id, before] of naming)
    await session.run(sql`UPDATE ${from} SET ${text} = ${withoutUsers(before, users)} WHERE id = ${id}`);
}

async function beingPosted({ rows, dialect }: QueueSession, theirs: Sql): Promise<number> {
  const [row] = await rows<[number]>(sql`SELECT count(*) FROM rollcall.delivery ${dialect.using('delivery_claimed')}
    WHERE state = ${raw(`${CLAIMED}`)} AND ${dialect.among(raw('owner'), raw('SELECT id FROM rollcall.owner'))} AND ${theirs}`);
  return row?.[0] ?? 0;
}
