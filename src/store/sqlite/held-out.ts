import type { DeadReason } from '../../dead-reasons.ts';
import { Changes } from '../changes.ts';
import { CLAIMED, DELETION_LANE, READY } from '../states.ts';
import { supersede } from './conflicts.ts';
import type { Connection } from './connection.ts';
import { Queues, writeChanges } from './counters.ts';

/** Letters are queued again once the queue is down to this part of its limit: in batches, not one by one. */
const REFILL_BELOW = 0.75;

/** A delivery as it would be queued; names stand as their numbers. */
interface HeldOut {
  readonly destination: number;
  readonly lane: number;
  readonly source: number;
  readonly type: number;
  readonly messageId: string;
  readonly userId: string | null;
  readonly run: number | null;
  readonly conflict: string | null;
  readonly body: string;
}

/** Makes a dead letter `queue_full` of what a full queue has no room for. It gets the id that the delivery would have. */
export function holdOut(db: Connection, now: number, letter: HeldOut): void {
  const { destination, lane, source, type, messageId, userId, run, conflict, body } = letter;
  db.run(
    `INSERT INTO dead_letter
     (id, destination, lane, source, type, message_id, user_id, run, conflict, reason, tries, accepted_at, last_at, body)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'queue_full', 0, ?, ?, ?)`,
    nextDeliveryId(db),
    destination,
    lane,
    source,
    type,
    messageId,
    userId,
    run,
    conflict,
    now,
    now,
    body,
  );
}

/** Ids of deliveries must never come again: they are part of the Idempotency-Key. */
export function nextDeliveryId(db: Connection): number {
  const next = "UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'delivery' RETURNING seq";
  const row = db.get<{ seq: number }>(next);
  if (row) return row.seq;
  // Nothing was ever queued.
  db.run("INSERT INTO sqlite_sequence VALUES ('delivery', 1)");
  return 1;
}

/** Whether a change newer than what is in flight is held out. */
export function isHeldOut(db: Connection, conflict: string, destination: number): boolean {
  const held = "SELECT 1 FROM dead_letter WHERE conflict = ? AND destination = ? AND reason = 'queue_full'";
  return db.get(held, conflict, destination) !== undefined;
}

interface RequeueArguments {
  readonly destination: string;
  readonly maxQueued: number;
  readonly limit: number;
}

export function requeue(db: Connection, now: number, { destination, maxQueued, limit }: RequeueArguments): number {
  const id = db.knownNameId(destination);
  if (id === null) return 0;
  const changes = new Changes<number>();
  const { queued, heldOut } = new Queues(db, changes).of(id);
  if (heldOut === 0 || queued > maxQueued * REFILL_BELOW) return 0;
  const letters = oldest(db, id, Math.min(limit, maxQueued - queued));
  for (const { id: letter, conflict } of letters) queueAgain(db, now, letter, id, conflict, changes);
  writeChanges(db, changes);
  return letters.length;
}

/** Due since it was accepted, so that it goes before what came later. */
export function queueAgain(
  db: Connection,
  now: number,
  letter: number,
  destination: number,
  conflict: string | null,
  changes: Changes<number>,
): void {
  const state = conflict === null ? READY : supersede(db, conflict, destination, changes);
  const row = db.get<{ lane: number }>(
    `INSERT INTO delivery
     (id, destination, lane, state, due_at, tries, source, type, message_id, user_id, accepted_at, run, conflict, body)
     SELECT id, destination, lane, ?, min(accepted_at, ?), 0, source, type, message_id, user_id, accepted_at, run, conflict, body
     FROM dead_letter WHERE id = ? RETURNING lane`,
    state,
    now,
    letter,
  );
  db.run('DELETE FROM dead_letter WHERE id = ?', letter);
  changes.add(destination, null, { pending: 1, dead: -1, queued: row?.lane === DELETION_LANE ? 0 : 1, heldOut: -1 });
}

interface Letter extends Record<string, number | string | null> {
  id: number;
  conflict: string | null;
  run: number | null;
  accepted_at: number;
}

function oldest(db: Connection, destination: number, limit: number): Letter[] {
  return db.all<Letter>(
    `SELECT id, conflict, run, accepted_at FROM dead_letter INDEXED BY dead_letter_held_out
     WHERE destination = ? AND reason = 'queue_full' ORDER BY id LIMIT ? + 0`,
    destination,
    limit,
  );
}

/** Gives up letters accepted until `before`: they wait for a person from then on, under another reason. */
export function giveUpHeldOut(
  db: Connection,
  now: number,
  destination: number,
  reason: DeadReason,
  before: number,
  limit: number,
): number {
  const changes = new Changes<number>();
  let given = 0;
  for (const { id, conflict, run, accepted_at } of oldest(db, destination, limit)) {
    if (accepted_at > before) break;
    // Its reason shows whether it has taken the older one's place: it keeps that until the older one has ended.
    if (conflict !== null && isInFlight(db, conflict, destination)) continue;
    db.run('UPDATE dead_letter SET reason = ?, last_at = ? WHERE id = ?', reason, now, id);
    changes.add(destination, run, { heldOut: -1, died: 1, untried: -1 });
    given += 1;
  }
  writeChanges(db, changes);
  return given;
}

function isInFlight(db: Connection, conflict: string, destination: number): boolean {
  const inFlight = `SELECT 1 FROM delivery WHERE conflict = ? AND destination = ? AND state = ${CLAIMED}`;
  return db.get(inFlight, conflict, destination) !== undefined;
}
