import { failpoint } from '../../failpoint.ts';
import { MESSAGE_TYPES } from '../../message-types.ts';
import { RETRY_WINDOW } from '../../retry.ts';
import { Changes } from '../changes.ts';
import { CLAIMED, DELETION_LANE, READY, WAITING } from '../states.ts';
import type { Connection } from './connection.ts';
import { writeChanges } from './counters.ts';
import { isHeldOut } from './held-out.ts';
import type { SettleColumns, VerdictTuple } from './settle-columns.ts';

const NOTICE = MESSAGE_TYPES.indexOf('delete');

/** A claim that ends. */
interface Ending {
  readonly id: number;
  readonly destination: number;
  readonly conflict: string | null;
  readonly run: number | null;
  readonly tries: number;
  readonly lane: number;
  /** Null when it was delivered. */
  readonly verdict: VerdictTuple | null;
}

export function settle(
  db: Connection,
  now: number,
  { owner, names, deliveries, attempts, keeps }: SettleColumns,
): void {
  const changes = new Changes<number>();
  const nameIds = names.map((name) => db.nameId(name));
  logAttempts(db, nameIds, attempts);
  if (keeps) keepDelivered(db, now, owner, deliveries);
  const delivered: Ending[] = [];
  for (const ending of endings(nameIds, deliveries)) {
    const { verdict } = ending;
    if (verdict === null) delivered.push(ending);
    else settleOne(db, now, owner, { ...ending, verdict }, changes);
  }
  freeNewer(db, owner, delivered);
  removeDelivered(db, owner, delivered, changes);
  writeChanges(db, changes);
  failpoint('settle');
}

function endings(nameIds: readonly number[], columns: SettleColumns['deliveries']): Ending[] {
  return columns.id.map((id, index) => {
    const run = columns.run[index] ?? null;
    return {
      id,
      destination: nameIds[columns.destination[index] as number] as number,
      conflict: columns.conflict[index] ?? null,
      run: run === null ? null : (nameIds[run] as number),
      tries: columns.tries[index] as number,
      lane: columns.lane[index] as number,
      verdict: columns.verdict[index] ?? null,
    };
  });
}

/** Sets free what waited for these changes; whoever holds a delivery now does that for it. */
function freeNewer(db: Connection, owner: number, delivered: readonly Ending[]): void {
  const changes = delivered.filter(({ conflict }) => conflict !== null).map(({ id }) => id);
  if (changes.length === 0) return;
  db.run(
    `UPDATE delivery SET state = ${READY} WHERE id IN (
       SELECT newer.id FROM json_each(?) AS ended
       CROSS JOIN delivery AS held ON held.id = ended.value AND held.owner = ?
       CROSS JOIN delivery AS newer INDEXED BY delivery_conflict
         ON newer.conflict = held.conflict AND newer.destination = held.destination AND newer.state = ${WAITING})`,
    JSON.stringify(changes),
    owner,
  );
}

/** Before they are removed. A notice names someone who is to be forgotten. */
function keepDelivered(db: Connection, now: number, owner: number, { id, verdict }: SettleColumns['deliveries']): void {
  const delivered = id.filter((_, place) => (verdict[place] ?? null) === null);
  if (delivered.length === 0) return;
  db.run(
    `INSERT INTO delivered (at, delivery, destination, source, type, message_id, user_id, accepted_at, conflict, body)
     SELECT ?, id, destination, source, type, message_id, user_id, accepted_at, conflict, body FROM delivery
     WHERE id IN (SELECT value FROM json_each(?)) AND owner = ? AND type <> ${NOTICE} ON CONFLICT DO NOTHING`,
    now,
    JSON.stringify(delivered),
    owner,
  );
}

/** Those that count alike go in one statement. */
function removeDelivered(db: Connection, owner: number, delivered: readonly Ending[], changes: Changes<number>): void {
  const alike = Map.groupBy(
    delivered,
    (ending) => `${ending.destination} ${ending.run} ${ending.tries === 0} ${countsAsQueued(ending)}`,
  );
  for (const [first, ...others] of alike.values()) {
    if (!first) continue;
    const ids = JSON.stringify([first.id, ...others.map(({ id }) => id)]);
    const removed = db.run(
      'DELETE FROM delivery WHERE id IN (SELECT value FROM json_each(?)) AND owner = ?',
      ids,
      owner,
    );
    changes.add(first.destination, first.run, {
      ...{ pending: -removed, queued: countsAsQueued(first) ? -removed : 0 },
      ...{ delivered: removed, untried: first.tries === 0 ? -removed : 0 },
    });
  }
}

/** Whether it counted towards the limit of its queue so far. */
function countsAsQueued({ tries, lane }: Pick<Ending, 'tries' | 'lane'>): boolean {
  return tries === 0 && lane !== DELETION_LANE;
}

function settleOne(
  db: Connection,
  now: number,
  owner: number,
  ending: Ending & { readonly verdict: VerdictTuple },
  changes: Changes<number>,
): void {
  const { id, destination, conflict, run, tries, verdict } = ending;
  const untried = tries === 0 ? -1 : 0;
  const queued = countsAsQueued(ending) ? -1 : 0;
  // Whoever holds the delivery now sets free what waits for it.
  if (conflict !== null && !isHeldBy(db, id, owner)) return;
  // A newer change may wait for this one, or be held out of a full queue: then this one is not tried again.
  const isReplaced = (key: string) => freeWaiting(db, key, destination) || isHeldOut(db, key, destination);
  const newerWaits = conflict !== null && isReplaced(conflict);
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

/** An abnormal end counts for the first time for all that were held, then for those whose post was recorded. */
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

/** Moves a claimed delivery to the dead letters; one that a newer change has replaced is only dropped. */
function bury(
  db: Connection,
  id: number,
  owner: number,
  [, reason, status, firstAt, marks]: Extract<VerdictTuple, readonly ['dead', ...unknown[]]>,
  now: number,
  replaced: boolean,
): boolean {
  if (!replaced) {
    db.run(
      `INSERT INTO dead_letter
       SELECT id, destination, lane, source, type, message_id, user_id, run, conflict, ?, ?,
         tries + ?, accepted_at, coalesce(first_at, ?), ?, body, ?
       FROM delivery WHERE id = ? AND owner = ?`,
      reason,
      status,
      firstAt === null ? 0 : 1,
      firstAt,
      now,
      marks,
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

interface BeginArguments {
  readonly owner: number;
  readonly ids: readonly number[];
}

export function begin(db: Connection, _now: number, { owner, ids }: BeginArguments): void {
  const sql = 'UPDATE delivery SET begun = 1 WHERE id IN (SELECT value FROM json_each(?)) AND owner = ?';
  db.run(sql, JSON.stringify(ids), owner);
}

interface RescueArguments {
  /** Owners that joined from this process, which lives. */
  readonly own: readonly number[];
}

/** Gives back what processes held whose lease has ended; resolves to the number of deliveries. */
export function rescue(db: Connection, now: number, { own }: RescueArguments): number {
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

/** No try is put off for longer than the four hours: what is due later was written by a clock that was wrong. */
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

/** Gives back everything that an owner holds; with `isCrashed` it ended abnormally. */
export function freeClaims(db: Connection, owner: number, isCrashed: boolean): number {
  const changes = new Changes<number>();
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
      db.run('DELETE FROM delivery WHERE id = ?', id);
      changes.takenBack(destination, run, tries);
    } else release(db, id, owner, null, isCrashed);
  }
  writeChanges(db, changes);
  return claims.length;
}

function logAttempts(db: Connection, nameIds: readonly number[], columns: SettleColumns['attempts']): void {
  const { delivery, destination, endpoint, source, type, messageId, userId } = columns;
  if (type.includes(NOTICE)) db.holdsTraces = true;
  for (const [index, at] of columns.at.entries()) {
    db.run(
      `INSERT INTO attempt (at, delivery, destination, endpoint, source, type, message_id, user_id, outcome, status, ms, error, response)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      at,
      delivery[index] as number,
      nameIds[destination[index] as number] as number,
      nameIds[endpoint[index] as number] as number,
      nameIds[source[index] as number] as number,
      type[index] as number,
      messageId[index] as string,
      userId[index] ?? null,
      columns.outcome[index] as number,
      columns.status[index] ?? null,
      columns.ms[index] as number,
      columns.error[index] ?? null,
      columns.response[index] ?? null,
    );
  }
}
