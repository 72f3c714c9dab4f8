import { failpoint } from '../../../kernel/failpoint.ts';
import { MESSAGE_TYPES } from '../../../message-types.ts';
import { Changes } from '../../changes.ts';
import type { LiveCommit } from '../../live.ts';
import type { AcceptResult, PlanStep, Take } from '../../port.ts';
import { moveCursor, takeBackSent } from '../../records/fence.ts';
import { commitLive } from '../../records/live-members.ts';
import { seenId } from '../../seen-key.ts';
import { CLAIMED, DELETION_LANE, NOTICE, READY } from '../../states.ts';
import { userHash, usersIn } from '../../users.ts';
import type { Connection } from '../connection.ts';
import { Queues, writeChanges } from '../counters.ts';
import { TailWriter } from '../event-log.ts';
import { Handed, type PackedHanded } from '../handed.ts';
import { type PackedMessages, Unpacked } from '../packed-messages.ts';
import { SqliteSession } from '../session.ts';
import { ConflictGap, dropDeadChange, supersede } from './conflicts.ts';
import { holdOut } from './held-out.ts';
import { isOwner } from './leases.ts';
import { NewDeliveries } from './new-deliveries.ts';

interface AcceptArguments {
  readonly messages: PackedMessages;
  readonly step: PlanStep | null;
  readonly live?: LiveCommit | null;
  readonly maxQueued: number;
  readonly logged: boolean;
  readonly take: Take | null;
  /** How far the store's time is ahead of the wall clock. */
  readonly ahead: number;
}

/** Several requests of few messages: what crosses to the thread costs by the piece. */
interface AcceptEachArguments {
  /** Those of all requests, one after the other. */
  readonly messages: PackedMessages;
  /** How many messages each request has. */
  readonly counts: Int32Array;
  /** Null if nobody takes any. */
  readonly takes: readonly (Take | null)[] | null;
  readonly maxQueued: number;
  readonly logged: boolean;
  readonly ahead: number;
}

/** Their outcome: four numbers for each request. The last says where its part of what is handed over ends. */
export interface AcceptedEach {
  readonly numbers: Int32Array;
  /** Of all requests; null if there are none. */
  readonly handed: PackedHanded | null;
}

export interface Accepted extends AcceptResult {
  readonly handed: PackedHanded | null;
}

export async function accept(db: Connection, now: number, request: AcceptArguments): Promise<Accepted> {
  const { step, live } = request;
  if (live) await commitLive(new SqliteSession(db, now), live);
  if (step) {
    const { count } = new Unpacked(request.messages);
    const isNew = await moveCursor(new SqliteSession(db, now), step, count);
    if (!isNew) return { accepted: 0, duplicates: count, suppressed: 0, handed: null };
  }
  const accepted = acceptAll(db, [{ now, request }])[0] as Accepted;
  if (step) await takeBackSent(new SqliteSession(db, now), step, accepted.suppressed);
  return accepted;
}

/** Several accepts in a row: what they read of the store, and what they add to its counters, is read and written once. */
export function acceptAll(
  db: Connection,
  accepts: readonly { readonly now: number; readonly request: AcceptArguments }[],
): Accepted[] {
  const shared = new Shared(db);
  db.seen.begin();
  try {
    const results = accepts.map(({ now, request }) => {
      const from = shared.handed.count;
      const result = write(db, now, request, shared, request.take);
      return { result, from, end: shared.handed.count };
    });
    shared.write();
    db.seen.write(accepts.at(-1)?.now ?? 0);
    return results.map(({ result, from, end }) => ({
      ...result,
      handed: end > from ? shared.handed.pack(from, end) : null,
    }));
  } catch (error) {
    db.seen.undo();
    throw error;
  }
}

export function acceptEach(db: Connection, now: number, request: AcceptEachArguments): AcceptedEach {
  const { counts, takes, messages, ...common } = request;
  const all = new Unpacked(messages);
  const numbers = new Int32Array(4 * counts.length);
  const shared = new Shared(db);
  const { handed } = shared;
  db.seen.begin();
  try {
    const alike = { ...common, messages, step: null };
    for (let index = 0; index < counts.length; index += 1) {
      const result = write(db, now, alike, shared, takes?.[index] ?? null, all, counts[index]);
      numbers.set([result.accepted, result.duplicates, result.suppressed, handed.count], 4 * index);
    }
    shared.write();
    db.seen.write(now);
  } catch (error) {
    db.seen.undo();
    throw error;
  }
  return { numbers, handed: handed.count > 0 ? handed.pack() : null };
}

type Routes = readonly (readonly (readonly [name: string, id: number])[])[];

/** State that accepts of one transaction share. */
class Shared {
  readonly changes = new Changes<number>();
  readonly queues: Queues;
  readonly handed = new Handed();
  readonly deliveries: NewDeliveries;
  /** Null where nobody is kept out. */
  readonly isSuppressed: ((message: Unpacked) => boolean) | null;
  hasDeadConflicts: boolean;
  private readonly db: Connection;
  private readonly owners = new Map<number, boolean>();
  private log: TailWriter | null = null;
  private routes: PackedMessages['routes'] | null = null;
  private numbered: Routes = [];

  constructor(db: Connection) {
    this.db = db;
    this.queues = new Queues(db, this.changes);
    this.deliveries = new NewDeliveries(db, this.handed);
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

  /** The destinations of each route, with their numbers. */
  routesOf({ routes }: PackedMessages): Routes {
    if (this.routes !== routes) {
      this.routes = routes;
      this.numbered = routes.map((names) => names.map((name) => [name, this.db.nameId(name)] as const));
    }
    return this.numbered;
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

/** Writes the next messages, so many of them. The place of a message that is handed over is counted from the first of them. */
function write(
  db: Connection,
  now: number,
  request: Omit<AcceptArguments, 'take'>,
  shared: Shared,
  take: Take | null,
  messages = new Unpacked(request.messages),
  count = messages.count,
): AcceptResult {
  failpoint('accept');
  const { changes, queues, deliveries, handed, isSuppressed } = shared;
  const run = request.step ? db.nameId(request.step.run) : null;
  const routes = shared.routesOf(request.messages);
  const taking = take !== null && shared.isOwner(now, take.owner) ? new Taking(take) : NOBODY_TAKES;
  const log = request.logged ? shared.logAt(now, request.ahead) : null;
  // A batch of a plan comes once, and in the order of its conflict keys.
  const isPlanned = request.step?.after !== undefined;
  const gap = isPlanned ? new ConflictGap(db) : null;
  let duplicates = 0;
  let suppressed = 0;
  for (let index = 0; index < count; index += 1) {
    messages.next();
    const { source, messageId, type, userId, body, lane, conflict } = messages;
    if (isSuppressed?.(messages)) {
      suppressed += 1;
      continue;
    }
    const sourceId = db.nameId(source);
    if (!isPlanned && !db.seen.add(source, seenId(messageId, conflict, type === NOTICE))) {
      duplicates += 1;
      continue;
    }
    log?.add(sourceId, body);
    const isFirst = conflict === null || gap?.holds(conflict) === true;
    for (const [name, destination] of routes[messages.route] ?? []) {
      let state = READY;
      if (conflict !== null) {
        if (!isFirst) {
          deliveries.writeIfChanged(destination, conflict);
          state = supersede(db, conflict, destination, changes);
        }
        if (shared.hasDeadConflicts) dropDeadChange(db, conflict, destination, changes);
      }
      // A full queue must not keep a user's data alive: deletion notices always find room.
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
      const place = owner === null ? null : handed.add(index, name);
      const common = { destination, lane, state: owner === null ? state : CLAIMED, owner, source: sourceId, run };
      deliveries.add(common, { now, type, messageId, userId, conflict, body }, place);
      changes.add(destination, run, isNotice ? NEW_NOTICE : NEW_DELIVERY);
    }
  }
  const accepted = count - duplicates - suppressed;
  return { accepted, duplicates, suppressed };
}

const NEW_NOTICE = { deliveries: 1, untried: 1, pending: 1 };
const NEW_DELIVERY = { ...NEW_NOTICE, queued: 1 };

/** Claims deliveries for an owner as they are written, as far as there is room. */
class Taking {
  private readonly owner: number;
  private readonly left: Map<string, number>;

  constructor({ owner, room }: Take) {
    this.owner = owner;
    this.left = new Map(room);
  }

  /** The owner that the next delivery of a destination is for; null for nobody. */
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
    type !== NOTICE &&
    usersIn(MESSAGE_TYPES[type], userId, body).some((user) => isKept('', user) || isKept(source, user));
}
