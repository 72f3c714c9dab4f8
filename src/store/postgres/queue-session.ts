import type { CounterChanges } from '../changes.ts';
import type { QueueSession } from '../queue/session.ts';
import { raw, type Sql, sql } from '../sql.ts';
import { READY } from '../states.ts';
import { int8 } from './arrays.ts';
import type { StoreContext } from './context.ts';
import { writeChanges } from './counters.ts';
import type { Cursors } from './cursors.ts';
import type * as database from './database.ts';
import { newIds } from './ids.ts';
import { takeBack } from './queue/accept-alone.ts';
import { ALL, again, isAgain, rankArray, TRIED, UNTRIED } from './queue/ranks.ts';
import { sessionOf } from './session.ts';

/** Return a session for queue verbs that are written once. @param patience - as for `Database.transaction` */
export function queueSessionOf(
  context: StoreContext,
  cursors: Cursors,
  patience?: number,
  on: database.DatabaseSession = context.db,
): QueueSession {
  const { db, parts } = context;
  const session: QueueSession = {
    ...sessionOf(context, on),
    entryColumns: raw('rank, due_at'),
    // The database's time: a claim never looks behind its cursor.
    entry: (entry) => raw(`${entry === 'in front' ? again('l.lane') : 'l.lane'}, ${db.now}`),
    lane: raw('rank % 3 AS lane'),
    skipLocked: raw('SKIP LOCKED'),
    ready: (destination, of, limit, condition) =>
      readyOnes(cursors, destination, of === 'all' ? ALL : TRIED, limit, condition),
    waiting: (destination, before, condition) => {
      const isOld = (column: string) =>
        sql`${raw(column)} <= ${raw(db.now)} + ${db.fromNow(before)}::bigint AND ${condition}`;
      const first = UNTRIED.filter((rank) => !isAgain(rank));
      return [
        (limit) => readyOnes(cursors, destination, first, limit, isOld('due_at')),
        // Returned deliveries are due since their return.
        (limit) => readyOnes(cursors, destination, UNTRIED.filter(isAgain), limit, isOld('accepted_at')),
      ];
    },
    newIds: (count) => newIds(on, count),
    takeBack: async (destination, conflicts, changes) => {
      await takeBack(
        on,
        conflicts.map((conflict) => ({ conflict, destination: String(destination) })),
        changes as CounterChanges<string>,
      );
    },
    write: (changes) => writeChanges(db.now, on, parts.settle, changes as CounterChanges<string>),
    leaveNoTrace: () => undefined,
    transaction: (work) =>
      on === db
        ? db.transaction((begun) => work(queueSessionOf(context, cursors, patience, begun)), patience)
        : work(session),
  };
  return session;
}

/** A query for ready deliveries from the destination's cursors on. */
function readyOnes(
  cursors: Cursors,
  destination: string,
  ranks: readonly number[],
  limit: number,
  condition: Sql = raw('true'),
): Sql {
  return sql`SELECT r.id FROM unnest(${raw(rankArray(ranks))}) AS t (rank), LATERAL (
    SELECT id FROM rollcall.delivery
    WHERE state = ${raw(`${READY}`)} AND destination = ${destination} AND rank = t.rank
      AND due_at >= (${int8(cursors.starts(destination))}::bigint[])[t.rank + 1] AND ${condition}
    ORDER BY due_at LIMIT ${limit} FOR UPDATE SKIP LOCKED
  ) AS r LIMIT ${limit}`;
}
