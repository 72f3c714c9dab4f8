import type { DeadReason } from '../../dead-reasons.ts';
import { MESSAGE_TYPES } from '../../message-types.ts';
import { Changes } from '../changes.ts';
import { LANES } from '../port.ts';
import { isUnknownFor } from '../records/fleet.ts';
import { lettersBeingDeleted, rowsBeingDeleted } from '../records/letters.ts';
import { DELETION_LANE, READY } from '../states.ts';
import type { Connection } from './connection.ts';
import { writeChanges } from './counters.ts';
import { giveUpHeldOut, isHeldOut, nextDeliveryId, queueAgain } from './held-out.ts';
import { SqliteSession } from './session.ts';
import type { Row } from './statements.ts';

const DELETE_TYPE = MESSAGE_TYPES.indexOf('delete');

interface ReplayedLetter extends Row {
  destination: number;
  lane: number;
  conflict: string | null;
  reason: string;
}

interface ReplayArguments {
  readonly replays: readonly { readonly id: number; readonly body: string | null }[];
}

/**
 * A changed body gets a new id, since receivers take the same id for the same message. Letters about users who are being
 * deleted stay where the deletion finds them.
 */
export async function replay(db: Connection, now: number, { replays }: ReplayArguments): Promise<number> {
  const session = new SqliteSession(db, now);
  const out = await lettersBeingDeleted(
    session,
    replays.map(({ id }) => id),
  );
  const changes = new Changes<number>();
  let queued = 0;
  for (const { id, body } of replays) {
    const letter = db.get<ReplayedLetter>(
      'SELECT destination, lane, conflict, reason FROM dead_letter WHERE id = ?',
      id,
    );
    if (!letter || out.has(id)) continue;
    const { destination, lane, conflict, reason } = letter;
    if (reason === 'queue_full') {
      const heldOut = body === null ? id : renew(db, id, body);
      queueAgain(db, now, heldOut, destination, conflict, changes);
      queued += 1;
      continue;
    }
    if (!hasNewer(db, conflict, destination)) {
      db.run(
        `INSERT INTO delivery (id, destination, lane, state, due_at, tries, source, type, message_id, user_id, accepted_at, conflict, body)
         SELECT ?, destination, lane, ${READY}, ?, 0, source, type, message_id, user_id, ?, conflict, coalesce(?, body)
         FROM dead_letter WHERE id = ?`,
        body === null ? id : null,
        now,
        now,
        body,
        id,
      );
      changes.add(destination, null, { pending: 1, queued: lane === DELETION_LANE ? 0 : 1 });
      queued += 1;
    }
    db.run('DELETE FROM dead_letter WHERE id = ?', id);
    changes.add(destination, null, { dead: -1 });
  }
  writeChanges(db, changes);
  return queued;
}

const LIVE = LANES.indexOf('live');

/** They become letters for the moment, with new ids, and are replayed as such. */
export async function deliverAgain(db: Connection, now: number, { replays }: ReplayArguments): Promise<number> {
  const session = new SqliteSession(db, now);
  const ids = replays.map(({ id }) => id);
  const out = await rowsBeingDeleted(session, 'delivered', 'delivery', ids);
  const changes = new Changes<number>();
  const letters = replays.flatMap(({ id, body }) => {
    if (out.has(id)) return [];
    const next = nextDeliveryId(db);
    const letter = db.get<{ destination: number }>(
      `INSERT INTO dead_letter
         (id, destination, lane, source, type, message_id, user_id, conflict, reason, tries, accepted_at, last_at, body)
       SELECT ?, destination, ${LIVE}, source, type, message_id, user_id, conflict, 'refused', 0, accepted_at, ?, coalesce(?, body)
       FROM delivered WHERE delivery = ? RETURNING destination`,
      next,
      now,
      body,
      id,
    );
    if (!letter) return [];
    changes.add(letter.destination, null, { dead: 1 });
    return [{ id: next, body: null }];
  });
  writeChanges(db, changes);
  return replay(db, now, { replays: letters });
}

/** Gives a letter another body, and so a new id. */
function renew(db: Connection, id: number, body: string): number {
  const next = nextDeliveryId(db);
  db.run('UPDATE dead_letter SET id = ?, body = ? WHERE id = ?', next, body, id);
  return next;
}

/** A held-out letter is newer than any other letter of its key. */
function hasNewer(db: Connection, conflict: string | null, destination: number): boolean {
  if (conflict === null) return false;
  const newer = 'SELECT 1 FROM delivery WHERE conflict = ? AND destination = ?';
  return db.get(newer, conflict, destination) !== undefined || isHeldOut(db, conflict, destination);
}

interface ResendArguments {
  readonly destination: string;
  readonly from: number;
  readonly after: number;
  readonly limit: number;
}

/** Letters are due in the order of acceptance, before all that was held since. */
export async function resend(
  db: Connection,
  now: number,
  { destination, from, after, limit }: ResendArguments,
): Promise<number | null> {
  const id = db.knownNameId(destination);
  if (id === null) return null;
  const letters = db.all<ReplayedLetter & { id: number }>(
    `SELECT id, destination, lane, conflict, reason
     FROM dead_letter INDEXED BY dead_letter_denied
     WHERE destination = ? AND marks IS NOT NULL AND id > ? AND last_at >= ? ORDER BY id LIMIT ? + 0`,
    id,
    after,
    from,
    limit,
  );
  const changes = new Changes<number>();
  const session = new SqliteSession(db, now);
  const out = await lettersBeingDeleted(
    session,
    letters.map((letter) => letter.id),
  );
  for (const letter of letters) {
    if (out.has(letter.id)) continue;
    if (!hasNewer(db, letter.conflict, id)) {
      db.run(
        `INSERT INTO delivery (id, destination, lane, state, due_at, tries, source, type, message_id, user_id, accepted_at, first_at, conflict, marks, body)
         SELECT id, destination, lane, ${READY}, min(accepted_at, ?), 0, source, type, message_id, user_id, accepted_at, first_at, conflict,
           nullif(marks, '{}'), body
         FROM dead_letter WHERE id = ?`,
        now,
        letter.id,
      );
      changes.add(id, null, { pending: 1, queued: letter.lane === DELETION_LANE ? 0 : 1 });
    }
    db.run('DELETE FROM dead_letter WHERE id = ?', letter.id);
    changes.add(id, null, { dead: -1 });
  }
  writeChanges(db, changes);
  return letters.length < limit ? null : (letters.at(-1)?.id ?? null);
}

export function drop(db: Connection, _now: number, { ids }: { readonly ids: readonly number[] }): number {
  const changes = new Changes<number>();
  const dropped = db.tuples<[number, DeadReason, number | null, number]>(
    `DELETE FROM dead_letter WHERE id IN (SELECT value FROM json_each(?)) RETURNING destination, reason, run, type`,
    JSON.stringify(ids),
  );
  for (const [destination, reason, run, type] of dropped) {
    if (type === DELETE_TYPE) db.holdsTraces = true;
    changes.letterGone(destination, run, reason, 'died');
  }
  writeChanges(db, changes);
  return dropped.length;
}

interface ExpireArguments {
  readonly destination: string;
  readonly before: number;
  readonly untriedToo: boolean;
  readonly limit: number;
}

export function expire(
  db: Connection,
  now: number,
  { destination, before, untriedToo, limit }: ExpireArguments,
): number {
  const id = db.knownNameId(destination);
  if (id === null) return 0;
  const ready = `SELECT id FROM delivery INDEXED BY delivery_ready WHERE state = ${READY} AND destination = ?1`;
  const lanes = 'lane IN (0, 1, 2)';
  const tried = `${ready} AND (tries > 0) = 1 AND ${lanes} AND due_at <= ?4 AND first_at <= ?2 LIMIT ?3`;
  let ids = db.tuples<[number]>(tried, id, before, limit, now);
  if (untriedToo && ids.length < limit) {
    const untried = `${ready} AND (tries > 0) = 0 AND ${lanes} AND due_at <= ?2 LIMIT ?3`;
    ids = ids.concat(db.tuples<[number]>(untried, id, before, limit - ids.length));
  }
  const ended = buryAll(db, now, ids, 'expired');
  return untriedToo && ended < limit ? ended + giveUpHeldOut(db, now, id, 'expired', before, limit - ended) : ended;
}

interface RestNoticesArguments {
  readonly destination: string;
  readonly limit: number;
}

export function restNotices(db: Connection, _now: number, { destination, limit }: RestNoticesArguments): number {
  return db.run(
    `UPDATE delivery SET first_at = NULL WHERE id IN (
       SELECT id FROM delivery INDEXED BY delivery_ready
       WHERE state = ${READY} AND destination = ? AND (tries > 0) = 1 AND lane IN (0, 1, 2)
         AND type = ${DELETE_TYPE} AND first_at IS NOT NULL LIMIT ?)`,
    db.knownNameId(destination),
    limit,
  );
}

interface BuryArguments {
  readonly destination: string;
  readonly limit: number;
  readonly unknownFor: number | null;
}

export async function bury(db: Connection, now: number, { destination, limit, unknownFor }: BuryArguments) {
  const id = db.knownNameId(destination);
  if (id === null) return 0;
  const session = new SqliteSession(db, now);
  if (unknownFor !== null && !(await isUnknownFor(session, destination, unknownFor))) return 0;
  const ids = db.tuples<[number]>(
    `SELECT id FROM delivery INDEXED BY delivery_ready WHERE state = ${READY} AND destination = ?
     AND (tries > 0) IN (0, 1) AND lane IN (0, 1, 2) LIMIT ?`,
    id,
    limit,
  );
  const buried = buryAll(db, now, ids, 'destination_removed');
  const rest = limit - buried;
  return rest > 0 ? buried + giveUpHeldOut(db, now, id, 'destination_removed', Number.POSITIVE_INFINITY, rest) : buried;
}

/** Of a destination that is gone, notices of deletions are dropped: a letter would keep the user's id. */
function buryAll(db: Connection, now: number, ids: readonly (readonly [number])[], reason: DeadReason): number {
  const isDropped = (type: number) => type === DELETE_TYPE && reason === 'destination_removed';
  const changes = new Changes<number>();
  const theirs = 'id IN (SELECT value FROM json_each(?))';
  const list = JSON.stringify(ids.flat());
  db.run(
    `INSERT INTO dead_letter SELECT id, destination, lane, source, type, message_id, user_id, run, conflict,
       ?, NULL, tries, accepted_at, first_at, ?, body, NULL FROM delivery WHERE ${theirs} AND type <> ?`,
    ...[reason, now, list, isDropped(DELETE_TYPE) ? DELETE_TYPE : -1],
  );
  const gone = db.tuples<[number, number | null, number, number, number]>(
    `DELETE FROM delivery WHERE ${theirs} RETURNING destination, run, tries, lane, type`,
    list,
  );
  for (const [destination, run, tries, lane, type] of gone) {
    if (isDropped(type)) db.holdsTraces = true;
    const untried = tries === 0 ? -1 : 0;
    const queued = lane === DELETION_LANE ? 0 : untried;
    changes.add(destination, run, { pending: -1, dead: isDropped(type) ? 0 : 1, queued, died: 1, untried });
  }
  writeChanges(db, changes);
  return gone.length;
}
