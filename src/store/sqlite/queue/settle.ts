import type { SQLInputValue } from 'node:sqlite';
import { failpoint } from '../../../kernel/failpoint.ts';
import { RETRY_WINDOW } from '../../../kernel/retry.ts';
import { CounterChanges } from '../../changes.ts';
import { CLAIMED, NOTICE, READY, WAITING } from '../../states.ts';
import type { Connection } from '../connection.ts';
import { writeChanges } from '../counters.ts';
import { ManyRows } from '../many-rows.ts';
import {
  countsAsQueued,
  type DeliveredGroup,
  type PackedAttempts,
  type PackedSettlements,
  UnpackedAttempts,
  type VerdictTuple,
} from '../thread/packed-settlements.ts';
import { passOnExplanation } from './conflicts.ts';
import { isHeldOut } from './held-out.ts';

/** A claim that ends without being delivered. */
interface Ending {
  readonly id: number;
  readonly destination: number;
  readonly conflict: string | null;
  readonly run: number | null;
  readonly tries: number;
  readonly lane: number;
  readonly verdict: VerdictTuple;
}

export function settle(
  db: Connection,
  now: number,
  { owner, names, delivered, others, attempts, keeps }: PackedSettlements,
): void {
  const changes = new CounterChanges<number>();
  const nameIds = names.map((name) => db.nameId(name));
  logAttempts(db, nameIds, attempts, owner);
  for (const ending of endings(nameIds, others)) settleOne(db, now, owner, ending, changes);
  for (const group of delivered) {
    const ids = JSON.stringify(group.ids);
    if (keeps) keepDelivered(db, now, owner, ids);
    if (group.hasConflicts) freeNewer(db, owner, ids);
    removeDelivered(db, owner, ids, { ...group, ...namedIn(nameIds, group) }, changes);
  }
  writeChanges(db, changes);
  failpoint('settle');
}

function* endings(nameIds: readonly number[], others: PackedSettlements['others']): Generator<Ending> {
  for (const [place, id] of others.id.entries()) {
    const names = { destination: others.destination[place] as number, run: others.run[place] ?? null };
    yield {
      id,
      ...namedIn(nameIds, names),
      conflict: others.conflict[place] ?? null,
      tries: others.tries[place] as number,
      lane: others.lane[place] as number,
      verdict: others.verdict[place] as VerdictTuple,
    };
  }
}

/** Replace places in the list of names by the numbers that stand for them. */
function namedIn(
  nameIds: readonly number[],
  { destination, run }: { readonly destination: number; readonly run: number | null },
) {
  return { destination: nameIds[destination] as number, run: run === null ? null : (nameIds[run] as number) };
}

/** Free the changes that wait for these. Only the current holder of a delivery does it. */
function freeNewer(db: Connection, owner: number, ids: string): void {
  db.run(
    `UPDATE delivery SET state = ${READY} WHERE id IN (
       SELECT newer.id FROM json_each(?) AS ended
       CROSS JOIN delivery AS held ON held.id = ended.value AND held.owner = ?
       CROSS JOIN delivery AS newer INDEXED BY delivery_conflict
         ON newer.conflict = held.conflict AND newer.destination = held.destination AND newer.state = ${WAITING})`,
    ids,
    owner,
  );
}

/** Keep delivered messages before they are removed. Notices are not kept: they name someone who is to be forgotten. */
function keepDelivered(db: Connection, now: number, owner: number, ids: string): void {
  db.run(
    `INSERT INTO delivered (at, delivery, destination, source, type, message_id, user_id, accepted_at, conflict, body)
     SELECT ?, id, destination, source, type, message_id, user_id, accepted_at, conflict, body FROM delivery
     WHERE id IN (SELECT value FROM json_each(?)) AND owner = ? AND type <> ${NOTICE} ON CONFLICT DO NOTHING`,
    now,
    ids,
    owner,
  );
}

function removeDelivered(
  db: Connection,
  owner: number,
  ids: string,
  { destination, run, isUntried, isQueued }: DeliveredGroup,
  changes: CounterChanges<number>,
): void {
  const removed = db.run('DELETE FROM delivery WHERE id IN (SELECT value FROM json_each(?)) AND owner = ?', ids, owner);
  changes.add(destination, run, {
    ...{ pending: -removed, queued: isQueued ? -removed : 0 },
    ...{ delivered: removed, untried: isUntried ? -removed : 0 },
  });
}

function settleOne(db: Connection, now: number, owner: number, ending: Ending, changes: CounterChanges<number>): void {
  const { id, destination, conflict, run, tries, verdict } = ending;
  const untried = tries === 0 ? -1 : 0;
  const queued = countsAsQueued(ending) ? -1 : 0;
  // Only the current holder frees the changes that wait for a delivery.
  if (conflict !== null && !isHeldBy(db, id, owner)) return;
  // If a newer change waits for this one, or is held out of a full queue, this one is not retried.
  const isReplaced = (key: string) => freeWaiting(db, key, destination) || isHeldOut(db, key, destination);
  const newerWaits = conflict !== null && isReplaced(conflict);
  if (newerWaits) passOnExplanation(db, id, conflict, destination);
  if (newerWaits && (verdict[0] === 'retry' || verdict[0] === 'release')) {
    if (db.run('DELETE FROM delivery WHERE id = ? AND owner = ?', id, owner) === 0) return;
    changes.takenBack(destination, run, tries);
  } else if (verdict[0] === 'retry') {
    const [, dueAt, firstAt, marks] = verdict;
    const changed = db.run(
      `UPDATE delivery SET state = ${READY}, owner = NULL, tries = tries + 1, due_at = ?, first_at = ?, marks = ?,
         crashes = 0, begun = 0
       WHERE id = ? AND owner = ?`,
      dueAt,
      firstAt,
      marks,
      id,
      owner,
    );
    if (changed > 0) changes.add(destination, run, { queued, untried });
    failpoint('retry');
  } else if (verdict[0] === 'release') {
    release(db, id, owner, verdict[1]);
  } else if (bury(db, id, owner, verdict, now, newerWaits)) {
    changes.add(destination, run, { pending: -1, dead: newerWaits ? 0 : 1, queued, died: 1, untried });
  }
}

function isHeldBy(db: Connection, id: number, owner: number): boolean {
  return db.get('SELECT 1 FROM delivery WHERE id = ? AND owner = ?', id, owner) !== undefined;
}

/** The first abnormal end counts for all deliveries held, later ones for those whose attempt was recorded. */
const CRASHED = 'crashes = CASE WHEN begun THEN crashes + 1 ELSE max(crashes, 1) END';

function release(db: Connection, id: number, owner: number, dueAt: number | null, isCrashed = false): void {
  db.run(
    `UPDATE delivery SET state = ${READY}, owner = NULL, due_at = coalesce(?, due_at), ${isCrashed ? `${CRASHED}, ` : ''}begun = 0
     WHERE id = ? AND owner = ?`,
    dueAt,
    id,
    owner,
  );
}

/** Move a claimed delivery to the dead letters, or drop it if a newer change has replaced it. */
function bury(
  db: Connection,
  id: number,
  owner: number,
  [, reason, status, firstAt, marks, taken]: Extract<VerdictTuple, readonly ['dead', ...unknown[]]>,
  now: number,
  replaced: boolean,
): boolean {
  if (!replaced) {
    db.run(
      `INSERT INTO dead_letter
       SELECT id, destination, lane, source, type, message_id, user_id, run, conflict, ?, ?,
         tries + ?, accepted_at, coalesce(first_at, ?), ?, body, ?, ?
       FROM delivery WHERE id = ? AND owner = ?`,
      reason,
      status,
      firstAt === null ? 0 : 1,
      firstAt,
      now,
      marks,
      taken,
      id,
      owner,
    );
  }
  return db.run('DELETE FROM delivery WHERE id = ? AND owner = ?', id, owner) > 0;
}

function freeWaiting(db: Connection, conflict: string, destination: number): boolean {
  return (
    db.run(
      `UPDATE delivery SET state = ${READY} WHERE conflict = ? AND destination = ? AND state = ${WAITING}`,
      conflict,
      destination,
    ) > 0
  );
}

export function begin(db: Connection, _now: number, owner: number, ids: readonly number[]): void {
  const sql = 'UPDATE delivery SET begun = 1 WHERE id IN (SELECT value FROM json_each(?)) AND owner = ?';
  db.run(sql, JSON.stringify(ids), owner);
}

/**
 * Release the deliveries of owners whose lease expired or whose process exited; resolves to their number.
 *
 * @param own - owners registered by this process, which is alive
 */
export function rescue(db: Connection, now: number, own: readonly number[]): number {
  recallAbsurd(db, now);
  let freed = 0;
  for (const { id, lease_until, holder } of db.all<{ id: number; lease_until: number; holder: string }>(
    'SELECT id, lease_until, holder FROM owner',
  )) {
    if (lease_until > now && !db.holders.hasExited(holder)) continue;
    freed += freeClaims(db, id, !own.includes(id));
    db.run('DELETE FROM owner WHERE id = ?', id);
  }
  return freed;
}

/** Correct absurd due times: no retry is delayed beyond the retry window, so a later time is from a wrong clock. */
function recallAbsurd(db: Connection, now: number): void {
  db.run(
    `UPDATE delivery SET due_at = ?1 WHERE id IN (
       SELECT id FROM delivery INDEXED BY delivery_ready WHERE state = ${READY}
       AND destination IN (SELECT destination FROM backlog WHERE pending > 0) AND (tries > 0) IN (0, 1)
       AND lane IN (0, 1, 2) AND due_at > ?2)`,
    now,
    now + RETRY_WINDOW,
  );
}

export function freeClaims(db: Connection, owner: number, isCrashed: boolean): number {
  const changes = new CounterChanges<number>();
  const claims = db.all<{
    id: number;
    destination: number;
    conflict: string | null;
    run: number | null;
    tries: number;
  }>(
    `SELECT id, destination, conflict, run, tries FROM delivery INDEXED BY delivery_claimed WHERE state = ${CLAIMED} AND owner = ?`,
    owner,
  );
  for (const { id, destination, conflict, run, tries } of claims) {
    const isReplaced =
      conflict !== null && (freeWaiting(db, conflict, destination) || isHeldOut(db, conflict, destination));
    if (isReplaced) {
      passOnExplanation(db, id, conflict, destination);
      db.run('DELETE FROM delivery WHERE id = ?', id);
      changes.takenBack(destination, run, tries);
    } else release(db, id, owner, null, isCrashed);
  }
  writeChanges(db, changes);
  return claims.length;
}

function logAttempts(db: Connection, nameIds: readonly number[], packed: PackedAttempts, owner: number): void {
  const { requests, deliveries } = packed;
  if (deliveries.type.includes(NOTICE)) db.holdsTraces = true;
  const attempts = new UnpackedAttempts(packed, nameIds);
  const rows = new AttemptRows(db);
  let place = 0;
  for (const [request, count] of requests.count.entries()) {
    const end = place + count;
    if (count >= MANY) rows.write();
    const isLogged = count < MANY ? null : logHeld(db, attempts, request, deliveries.id.slice(place, end), owner);
    for (; place < end; place += 1) {
      if (isLogged?.(deliveries.id[place] as number)) continue;
      rows.add(attempts.shared(request, place), attempts.own(request, place));
    }
  }
  rows.write();
}

/** Attempts of at least this many deliveries by one request are written by one statement. */
const MANY = 4;
const ATTEMPT_COLUMNS =
  'at, delivery, destination, endpoint, source, type, message_id, user_id, outcome, status, ms, error, response';
const ATTEMPT_ROWS = new ManyRows(
  `INSERT INTO attempt
    (destination, endpoint, source, outcome, status, error, response, at, delivery, type, message_id, user_id, ms)`,
  '(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?, ?, ?, ?, ?, ?)',
);

/** Collects attempts in order, as long as their shared values are the same. */
class AttemptRows {
  private readonly db: Connection;
  private shared: readonly SQLInputValue[] = [];
  private values: SQLInputValue[] = [];

  constructor(db: Connection) {
    this.db = db;
  }

  add(shared: readonly SQLInputValue[], own: readonly SQLInputValue[]): void {
    if (!shared.every((value, place) => value === this.shared[place])) {
      this.write();
      this.shared = shared;
    }
    this.values.push(...own);
  }

  write(): void {
    ATTEMPT_ROWS.write(this.db, this.shared, this.values);
    this.values = [];
  }
}

/** Log a request for those deliveries that the owner still holds, from their rows. Return a test for them. */
function logHeld(
  db: Connection,
  attempts: UnpackedAttempts,
  request: number,
  deliveries: readonly number[],
  owner: number,
): (delivery: number) => boolean {
  const ids = JSON.stringify(deliveries);
  const held = 'FROM delivery WHERE id IN (SELECT value FROM json_each(?)) AND owner = ?';
  const logged = db.run(
    `INSERT INTO attempt (${ATTEMPT_COLUMNS})
     SELECT ?, id, destination, ?, source, type, message_id, user_id, ?, ?, ?, ?, ? ${held}`,
    ...attempts.common(request),
    ids,
    owner,
  );
  if (logged === deliveries.length) return () => true;
  const known = new Set(db.tuples<[number]>(`SELECT id ${held}`, ids, owner).map(([id]) => id));
  return (delivery) => known.has(delivery);
}
