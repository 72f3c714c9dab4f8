import type { DeadReason } from '../../dead-reasons.ts';
import { Changes } from '../changes.ts';
import { CLAIMED } from '../states.ts';
import { takeBack } from './accept-alone.ts';
import { int8 } from './arrays.ts';
import { stateOf } from './conflicts.ts';
import type { Context } from './context.ts';
import { countersOf, counting, QUEUED_ONES, writeChanges } from './counters.ts';
import type { Session } from './database.ts';

/** Letters are queued again once the queue is down to this part of its limit: in batches, not one by one. */
const REFILL_BELOW = 0.75;

const OLDEST = `
  SELECT id, conflict, accepted_at FROM rollcall.dead_letter
  WHERE destination = $1 AND reason = 'queue_full' AND accepted_at >= $3 ORDER BY accepted_at, id LIMIT $2`;
/** A letter may be seen this much later than it was accepted, while its commit is under way. Milliseconds. */
const COMMIT = 12_000;

/** Letters are claimed in the order of acceptance. Those that somebody queued or dropped meanwhile are passed over. */
const requeueSql = (now: string) => `
WITH gone AS (
  DELETE FROM rollcall.dead_letter WHERE id = ANY ($1::bigint[]) AND reason = 'queue_full' RETURNING *
), queued AS (
  INSERT INTO rollcall.delivery
    (id, destination, rank, state, due_at, tries, type, source, message_id, user_id, accepted_at, run, conflict, body)
  SELECT id, destination, lane, ${stateOf('gone')}, ${now}, 0, type, source, message_id, user_id,
    accepted_at, run, conflict, body
  FROM gone ORDER BY accepted_at, id RETURNING destination, rank
), ${counting(now, '$2::bigint', 'queued', {
  pending: 'count(*)',
  queued: QUEUED_ONES,
  dead: '-count(*)',
  heldOut: '-count(*)',
})}
SELECT count(*) FROM queued`;

const COUNTERS = countersOf('SELECT $1::text', '$2');

/** Queues letters again, from where it was on: those that it queued are passed until vacuum may remove them. */
export class Requeue {
  private readonly context: Context;
  /** By destination, when the last letter was accepted that was queued again, by the database's clock. */
  private readonly fronts = new Map<string, number>();

  constructor(context: Context) {
    this.context = context;
  }

  async run(destination: string, limit: number): Promise<number> {
    const { context } = this;
    const { db, maxQueued, parts } = context;
    const { count, last } = await db.transaction(async (session) => {
      const [counters] = await session.rows<[string, number, number]>(COUNTERS, [destination, parts.since]);
      const [, queued, heldOut] = counters ?? ['', 0, 0];
      if (heldOut === 0 || queued > maxQueued * REFILL_BELOW) return { count: 0 };
      const oldest = await this.oldest(session, destination, Math.min(limit, maxQueued - queued));
      const letters = oldest.map(([id, conflict]): Letter => [id, conflict]);
      return { count: await queueAgain(context, session, destination, letters, parts.settle), last: oldest.at(-1) };
    });
    if (last) this.fronts.set(destination, last[2]);
    return count;
  }

  private async oldest(session: Session, destination: string, limit: number) {
    const from = (start: number) => session.rows<[...Letter, acceptedAt: number]>(OLDEST, [destination, limit, start]);
    const letters = await from((this.fronts.get(destination) ?? COMMIT) - COMMIT);
    // There are some: so they are from before.
    return letters.length > 0 ? letters : from(0);
  }
}

export type Letter = readonly [id: number, conflict: string | null];

/** Letters of one destination; those that are no longer held out are passed over. */
export async function queueAgain(
  { db }: Context,
  session: Session,
  destination: string,
  letters: readonly Letter[],
  part: number,
): Promise<number> {
  const changes = new Changes<string>();
  const keyed = letters.flatMap(([, conflict]) => (conflict === null ? [] : [{ conflict, destination }]));
  if (keyed.length > 0) await takeBack(session, keyed, changes);
  const [row] = await session.rows<[number]>(requeueSql(db.now), [int8(letters, ([id]) => id), part]);
  await writeChanges(db.now, session, part, changes);
  return row?.[0] ?? 0;
}

/** A letter keeps its reason until the older change is over that it took the place of: the reason tells that it did. */
const giveUpSql = (now: string) => `
WITH chosen AS (
  SELECT id FROM rollcall.dead_letter l
  WHERE destination = $2 AND reason = 'queue_full' AND ($3::bigint IS NULL OR accepted_at <= ${now} + $3::bigint)
    AND NOT EXISTS (
      SELECT 1 FROM rollcall.delivery o
      WHERE o.conflict = l.conflict AND o.destination = l.destination AND o.state = ${CLAIMED})
  ORDER BY accepted_at, id LIMIT $4 FOR UPDATE SKIP LOCKED
), given AS (
  UPDATE rollcall.dead_letter SET reason = $1, last_at = ${now}
  WHERE id = ANY (ARRAY(SELECT id FROM chosen)) AND reason = 'queue_full' RETURNING destination, run
), ${counting(now, '$5::bigint', 'given', { heldOut: '-count(*)', untried: '-count(*)', died: 'count(*)' })}
SELECT count(*) FROM given`;

/** Gives up letters accepted until `before` (or all): they wait for a person from then on, under another reason. */
export async function giveUpHeldOut(
  { db, parts }: Context,
  session: Session,
  destination: string,
  reason: DeadReason,
  before: number | null,
  limit: number,
): Promise<number> {
  const values = [reason, destination, db.fromNow(before), limit, parts.settle];
  const [row] = await session.rows<[number]>(giveUpSql(db.now), values);
  return row?.[0] ?? 0;
}
