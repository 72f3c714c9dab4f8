import { failpoint } from '../../../kernel/failpoint.ts';
import { inPlaceOf } from '../../../membership-change.ts';
import { MESSAGE_TYPES } from '../../../message-types.ts';
import { CounterChanges } from '../../changes.ts';
import { commitStep } from '../../live/members.ts';
import type { LiveCommit } from '../../live.ts';
import { type AcceptResult, LANES, type NewMessage, type PlanStep, type Take } from '../../port.ts';
import { moveCursor, takeBackSent } from '../../records/fence.ts';
import { seenId } from '../../seen-key.ts';
import { CLAIMED, DELETION_LANE, NOTICE, READY } from '../../states.ts';
import { userHash, usersIn } from '../../users.ts';
import type { Connection } from '../connection.ts';
import { QueueCounters, writeChanges } from '../counters.ts';
import { TailWriter } from '../event-log.ts';
import { SqliteSession } from '../session.ts';
import { ConflictGap, dropDeadChange, supersede } from './conflicts.ts';
import { holdOut } from './held-out.ts';
import { isOwner } from './leases.ts';
import { type Handed, NewDeliveries } from './new-deliveries.ts';

interface AcceptArguments {
  readonly messages: readonly NewMessage[];
  readonly step: PlanStep | null;
  readonly live?: LiveCommit | null;
  readonly maxQueued: number;
  readonly logged: boolean;
  readonly take: Take | null;
  /** Milliseconds that the store's time is ahead of the wall clock. */
  readonly ahead: number;
}

interface Accepted extends AcceptResult {
  readonly handed: readonly Handed[];
}

export async function accept(db: Connection, now: number, request: AcceptArguments): Promise<Accepted> {
  const { step, live } = request;
  if (live) await commitStep(new SqliteSession(db, now), live);
  if (step) {
    const count = request.messages.length;
    const isNew = await moveCursor(new SqliteSession(db, now), step, count);
    if (!isNew) return { accepted: 0, duplicates: count, suppressed: 0, handed: [] };
  }
  const accepted = acceptAll(db, [{ now, request }])[0] as Accepted;
  if (step) await takeBackSent(new SqliteSession(db, now), step, accepted.suppressed);
  return accepted;
}

/** Perform several accepts in a row, reading shared state and writing counters once. */
export function acceptAll(
  db: Connection,
  accepts: readonly { readonly now: number; readonly request: AcceptArguments }[],
): Accepted[] {
  const shared = new Shared(db);
  db.seen.begin();
  try {
    const results = accepts.map(({ now, request }) => write(db, now, request, shared));
    shared.write();
    db.seen.write(accepts.at(-1)?.now ?? 0);
    return results;
  } catch (error) {
    db.seen.undo();
    throw error;
  }
}

/** State shared by the accepts of a transaction. */
class Shared {
  readonly changes = new CounterChanges<number>();
  readonly queues: QueueCounters;
  readonly deliveries: NewDeliveries;
  /** Null if no user is suppressed. */
  readonly isSuppressed: ((message: NewMessage) => boolean) | null;
  hasDeadConflicts: boolean;
  private readonly db: Connection;
  private readonly owners = new Map<number, boolean>();
  private log: TailWriter | null = null;

  constructor(db: Connection) {
    this.db = db;
    this.queues = new QueueCounters(db, this.changes);
    this.deliveries = new NewDeliveries(db);
    this.isSuppressed = suppressionCheck(db);
    this.hasDeadConflicts = db.get('SELECT 1 FROM dead_letter WHERE conflict IS NOT NULL LIMIT 1') !== undefined;
  }

  logAt(now: number, ahead: number): TailWriter {
    if (this.log?.isFull) {
      this.log.write();
      this.log = null;
    }
    this.log ??= new TailWriter(this.db, now, now - ahead);
    return this.log;
  }

  isOwner(now: number, owner: number): boolean {
    let known = this.owners.get(owner);
    if (known === undefined) {
      known = isOwner(this.db, now, owner);
      this.owners.set(owner, known);
    }
    return known;
  }

  write(): void {
    this.deliveries.write();
    writeChanges(this.db, this.changes);
    this.log?.write();
  }
}

/** Perform one accept. The ids of handed deliveries are set once the transaction's shared state is written. */
function write(db: Connection, now: number, request: AcceptArguments, shared: Shared): Accepted {
  failpoint('accept');
  const { messages, take } = request;
  const { changes, queues, deliveries, isSuppressed } = shared;
  const run = request.step ? db.nameId(request.step.run) : null;
  const taking = take !== null && shared.isOwner(now, take.owner) ? new Taking(take) : NOBODY_TAKES;
  const log = request.logged ? shared.logAt(now, request.ahead) : null;
  // A batch of a plan arrives once, in the order of its conflict keys.
  const isPlanned = request.step?.after !== undefined;
  const gap = isPlanned ? new ConflictGap(db) : null;
  const handed: Handed[] = [];
  let duplicates = 0;
  let suppressed = 0;
  for (const [index, message] of messages.entries()) {
    const { source, messageId, userId, conflict } = message;
    if (isSuppressed?.(message)) {
      suppressed += 1;
      continue;
    }
    const sourceId = db.nameId(source);
    const type = MESSAGE_TYPES.indexOf(message.type);
    const lane = LANES.indexOf(message.lane);
    if (!isPlanned && !db.seen.add(source, seenId(messageId, conflict, type === NOTICE))) {
      duplicates += 1;
      continue;
    }
    log?.add(sourceId, message.body);
    const isFirst = conflict === null || gap?.holds(conflict) === true;
    for (const name of message.destinations) {
      const destination = db.nameId(name);
      let state = READY;
      let { body } = message;
      if (conflict !== null) {
        let older: string | null = null;
        if (!isFirst) {
          deliveries.writeIfChanged(destination, conflict);
          ({ state, body: older } = supersede(db, conflict, destination, changes));
        }
        const { replaces } = message;
        if (replaces !== undefined) {
          deliveries.writeIfChanged(destination, replaces);
          older ??= supersede(db, replaces, destination, changes).body;
        }
        let dead: string | null = null;
        if (shared.hasDeadConflicts) {
          for (const key of [conflict, replaces ?? conflict])
            dead = dropDeadChange(db, key, destination, changes) ?? dead;
        }
        const replaced = older ?? dead;
        if (replaced !== null) body = inPlaceOf(replaced, body);
      }
      // A full queue must not keep a user's data alive: deletion notices always fit.
      const isNotice = lane === DELETION_LANE;
      if (!isNotice && queues.isFull(destination, request.maxQueued)) {
        deliveries.writeOf(destination);
        holdOut(db, now, { destination, lane, source: sourceId, type, messageId, userId, run, conflict, body });
        changes.add(destination, run, { deliveries: 1, untried: 1, dead: 1, heldOut: 1 });
        shared.hasDeadConflicts ||= conflict !== null;
        continue;
      }
      // A change that is not in flight yet can still be superseded.
      const owner = conflict === null ? taking.next(name) : null;
      const taken = owner === null ? null : { message: index, destination: name, id: 0 };
      if (taken !== null) handed.push(taken);
      const common = { destination, lane, state: owner === null ? state : CLAIMED, owner, source: sourceId, run };
      deliveries.add(common, { now, type, messageId, userId, conflict, body }, taken);
      changes.add(destination, run, isNotice ? NEW_NOTICE : NEW_DELIVERY);
    }
  }
  const accepted = messages.length - duplicates - suppressed;
  return { accepted, duplicates, suppressed, handed };
}

const NEW_NOTICE = { deliveries: 1, untried: 1, pending: 1 };
const NEW_DELIVERY = { ...NEW_NOTICE, queued: 1 };

/** Claims deliveries for an owner as they are written, while it has room. */
class Taking {
  private readonly owner: number;
  private readonly left: Map<string, number>;

  constructor({ owner, room }: Take) {
    this.owner = owner;
    this.left = new Map(room);
  }

  /** Return the owner for the next delivery of a destination; null for none. */
  next(destination: string): number | null {
    const left = this.left.get(destination) ?? 0;
    if (left === 0) return null;
    this.left.set(destination, left - 1);
    return this.owner;
  }
}

const NOBODY_TAKES = new Taking({ owner: 0, room: new Map() });

function suppressionCheck(db: Connection): Shared['isSuppressed'] {
  if (db.get('SELECT 1 FROM suppression LIMIT 1') === undefined) return null;
  const key = db.meta('suppression_key') ?? '';
  const isKept = (scope: string, userId: string) =>
    db.get('SELECT 1 FROM suppression WHERE hash = ?', userHash(key, scope, userId)) !== undefined;
  return ({ source, type, userId, body }) =>
    type !== 'delete' && usersIn(type, userId, body).some((user) => isKept('', user) || isKept(source, user));
}
