import type { Connection } from '../connection.ts';

/** A delivery as it would be queued, with numbers for names. */
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

/** Write a dead letter `queue_full` for a delivery that a full queue has no room for. It gets the delivery's id. */
export function holdOut(db: Connection, now: number, letter: HeldOut): void {
  const { destination, lane, source, type, messageId, userId, run, conflict, body } = letter;
  db.run(
    `INSERT INTO dead_letter
     (id, destination, lane, source, type, message_id, user_id, run, conflict, reason, tries, accepted_at, last_at, body)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'queue_full', 0, ?, ?, ?)`,
    ...nextDeliveryIds(db, 1),
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

/** Reserve ids of deliveries. They must never be reused, as they are part of the Idempotency-Key. */
export function nextDeliveryIds(db: Connection, count: number): number[] {
  const next = "UPDATE sqlite_sequence SET seq = seq + ? WHERE name = 'delivery' RETURNING seq";
  const [[last] = [null]] = db.tuples<[number | null]>(next, count);
  // Nothing was queued before.
  if (last === null) db.run("INSERT INTO sqlite_sequence VALUES ('delivery', ?)", count);
  const first = (last ?? count) - count + 1;
  return Array.from({ length: count }, (_, place) => first + place);
}

/** True if a change newer than the one in flight is held out. */
export function isHeldOut(db: Connection, conflict: string, destination: number): boolean {
  const held = "SELECT 1 FROM dead_letter WHERE conflict = ? AND destination = ? AND reason = 'queue_full'";
  return db.get(held, conflict, destination) !== undefined;
}
