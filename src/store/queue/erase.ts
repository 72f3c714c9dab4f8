import type { DeadReason } from '../../kernel/dead-reasons.ts';
import { CounterChanges } from '../changes.ts';
import { bodyWithout, type ErasedIds, idSets } from '../deleted-ids.ts';
import { inScope, mayName, namesAny, pageOf, type Trace } from '../records/traces.ts';
import { raw, type Sql, sql } from '../sql.ts';
import { ALERT_SOURCE, CLAIMED, NOTICE } from '../states.ts';
import { withoutUsers } from '../users.ts';
import type { Name, QueueSession } from './session.ts';

export function erase(
  session: QueueSession,
  ids: ErasedIds,
  sources: readonly string[] | null,
  cursor: string | null,
): Promise<{ readonly cursor: string | null; readonly inFlight: number }> {
  return session.transaction(async (session) => {
    const { trace, range, next } = await pageOf(session, cursor, ids.users.length + ids.anonymous.length);
    const changes = new CounterChanges<Name>();
    const inRange = sql`${range ?? raw('false')} AND ${inScope(session, sources)}`;
    const left = range === null ? 0 : await eraseFrom(session, trace, inRange, ids, changes);
    if (range !== null) await hideIn(session, trace, range, ids);
    await session.write(changes);
    // Only on the last page, since it scans everything claimed.
    const posting = next === null ? await beingPosted(session, ids, sources) : 0;
    return { cursor: next, inFlight: Math.max(left, posting) };
  });
}

/** Resolves to the number of deliveries left because they are being posted. */
async function eraseFrom(
  session: QueueSession,
  trace: Trace,
  inRange: Sql,
  ids: ErasedIds,
  changes: CounterChanges<Name>,
): Promise<number> {
  const { run, dialect } = session;
  const { table, hasBody } = trace;
  const isUser = dialect.oneOf(raw('user_id'), 'text', ids.users);
  if (!hasBody) {
    await run(sql`DELETE FROM rollcall.${raw(table)} WHERE ${inRange} AND ${isUser}`);
    return 0;
  }
  const found = await foundIn(session, trace, inRange, isUser, ids);
  const free = found.filter(({ state }) => state !== CLAIMED);
  for (const { id, body } of free) {
    if (body !== null) await run(sql`UPDATE rollcall.${raw(table)} SET body = ${body} WHERE id = ${id}`);
  }
  const gone = free.filter(({ body }) => body === null);
  const listed = (numbers: readonly number[], column: string) => dialect.oneOf(raw(column), 'id', numbers);
  const isGone = listed(
    gone.map(({ id }) => id),
    'id',
  );
  await removeFrom(session, table, isGone, changes);
  // Attempts of anonymous messages don't name anybody.
  const unnamed = gone.filter(({ isNamed }) => !isNamed).map(({ delivery }) => delivery);
  if (unnamed.length > 0) await run(sql`DELETE FROM rollcall.attempt WHERE ${listed(unnamed, 'delivery')}`);
  return found.length - free.length;
}

/** Alerts quote errors and receivers repeat ids, which may be a deleted one. They lose the id, not themselves. */
async function hideIn(session: QueueSession, { table, hasBody }: Trace, range: Sql, ids: ErasedIds): Promise<void> {
  const hidden = [...new Set([...ids.users, ...ids.anonymous])];
  const from = raw(`rollcall.${table}`);
  const isAlert = sql`source = ${session.dialect.name(ALERT_SOURCE)}`;
  const isOurs = hasBody ? isAlert : sql`type <> ${NOTICE}`;
  for (const column of hasBody ? ['body'] : ['error', 'response']) {
    const naming = await session.rows<[number, string]>(sql`SELECT id, ${raw(column)} FROM ${from} WHERE ${range}
      AND ${isOurs} AND ${raw(column)} IS NOT NULL AND ${namesAny(session, raw(column), hidden)}`);
    for (const [id, before] of naming)
      await session.run(sql`UPDATE ${from} SET ${raw(column)} = ${withoutUsers(before, hidden)} WHERE id = ${id}`);
  }
}

interface Found {
  readonly id: number;
  readonly delivery: number;
  /** Null for rows that are not in the queue. */
  readonly state: number | null;
  /** True if its column has the user. */
  readonly isNamed: boolean;
  /** The body without the deleted ids; null if nothing may be left. */
  readonly body: string | null;
}

/** Lock first, so that deliveries claimed or released at this moment are either erased or counted, never neither. */
async function foundIn(
  session: QueueSession,
  { table, delivery }: Trace,
  inRange: Sql,
  isUser: Sql,
  ids: ErasedIds,
): Promise<readonly Found[]> {
  const { rows, dialect } = session;
  const state = raw(table === 'delivery' ? 'state' : 'NULL');
  const named = await rows<[number, number, number | null]>(
    sql`SELECT id, ${raw(delivery)}, ${state} FROM rollcall.${raw(table)} WHERE ${inRange} AND ${isUser} ${dialect.forUpdate}`,
  );
  const others = await rows<[number, number, number | null, string]>(
    sql`SELECT id, ${raw(delivery)}, ${state}, body FROM rollcall.${raw(table)}
      WHERE ${inRange} AND NOT coalesce(${isUser}, false) AND ${mayName(session, ids)} ${dialect.forUpdate}`,
  );
  const gone = idSets(ids);
  return [
    ...named.map(([id, delivery, state]): Found => ({ id, delivery, state, isNamed: true, body: null })),
    ...others.flatMap(([id, delivery, state, before]): Found[] => {
      const body = bodyWithout(before, gone);
      return body === before ? [] : [{ id, delivery, state, isNamed: false, body }];
    }),
  ];
}

async function removeFrom(
  { rows, run }: QueueSession,
  table: Trace['table'],
  isGone: Sql,
  changes: CounterChanges<Name>,
): Promise<void> {
  const from = raw(`rollcall.${table}`);
  if (table === 'delivery') {
    const gone = await rows<[Name, Name | null, tries: number]>(
      sql`DELETE FROM ${from} WHERE ${isGone} RETURNING destination, run, tries`,
    );
    for (const delivery of gone) changes.takenBack(...delivery);
  } else if (table === 'dead_letter') {
    const gone = await rows<[Name, Name | null, DeadReason]>(
      sql`DELETE FROM ${from} WHERE ${isGone} RETURNING destination, run, reason`,
    );
    for (const letter of gone) changes.letterGone(...letter, 'superseded');
  } else await run(sql`DELETE FROM ${from} WHERE ${isGone}`);
}

async function beingPosted(session: QueueSession, ids: ErasedIds, sources: readonly string[] | null): Promise<number> {
  const { rows, dialect } = session;
  const isUser = dialect.oneOf(raw('user_id'), 'text', ids.users);
  const claimed = sql`FROM rollcall.delivery ${dialect.using('delivery_claimed')}
    WHERE state = ${raw(`${CLAIMED}`)} AND ${dialect.among(raw('owner'), raw('SELECT id FROM rollcall.owner'))}
      AND ${inScope(session, sources)}`;
  const [[named] = [0]] = await rows<[number]>(sql`SELECT count(*) ${claimed} AND ${isUser}`);
  const others = await rows<[string]>(
    sql`SELECT body ${claimed} AND NOT coalesce(${isUser}, false) AND ${mayName(session, ids)}`,
  );
  const gone = idSets(ids);
  return named + others.filter(([body]) => bodyWithout(body, gone) !== body).length;
}
