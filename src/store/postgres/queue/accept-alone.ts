import type { DeadReason } from '../../../kernel/dead-reasons.ts';
import { failpoint } from '../../../kernel/failpoint.ts';
import { inPlaceOf } from '../../../membership-change.ts';
import { MESSAGE_TYPES } from '../../../message-types.ts';
import { CounterChanges } from '../../changes.ts';
import { commitStep } from '../../live/members.ts';
import { type AcceptRequest, type AcceptResult, LANES, type NewMessage } from '../../port.ts';
import { stateOf } from '../../queue/waiting.ts';
import { moveCursor, takeBackSent } from '../../records/fence.ts';
import { seenKey } from '../../seen-key.ts';
import { CLAIMED } from '../../states.ts';
import { columns, int2, text, uuid } from '../arrays.ts';
import type { StoreContext } from '../context.ts';
import { countersOf, writeChanges } from '../counters.ts';
import type { DatabaseSession } from '../database.ts';
import { logColumns, logSql } from '../events/event-writing.ts';
import { sessionOf } from '../session.ts';
import { suppressed } from '../suppression.ts';
import { hasOneOf } from './conflict-keys.ts';
import { remember } from './seen.ts';

/**
 * Accept one request in a transaction of several statements. One statement locks an older change, and a later one reads
 * its state. Only the later one sees commits made while the first waited for the lock.
 *
 * @throws RollcallError `fence_lost`, `epoch_moved`, `unknown_run`
 */
export function acceptAlone(
  context: StoreContext,
  { messages, step, live, logged }: AcceptRequest,
): Promise<AcceptResult> {
  return context.db.transaction(async (session) => {
    failpoint('accept');
    if (live) await commitStep(sessionOf(context, session), live);
    const isNew = step === null || (await moveCursor(sessionOf(context, session), step, messages.length));
    if (!isNew) return { accepted: 0, duplicates: messages.length, suppressed: 0 };
    const out = await suppressed(context, session, messages);
    const wanted = messages.filter((message) => !out.has(message));
    if (step) await takeBackSent(sessionOf(context, session), step, messages.length - wanted.length);
    // A batch of a plan arrives once.
    const fresh = step?.after === undefined ? await notSeen(context, session, wanted) : wanted;
    if (logged) await session.run(logSql(1), logColumns(fresh.map((message) => ({ key: seenKey(message), message }))));
    const changes = new CounterChanges<string>();
    const queues = await Queues.of(context, session, fresh, changes);
    for (const pass of passes(fresh)) await insert(context, session, pass, step?.run ?? null, changes, queues);
    await writeChanges(context.db.now, session, context.parts.accept, changes);
    failpoint('commit');
    return {
      accepted: fresh.length,
      duplicates: wanted.length - fresh.length,
      suppressed: messages.length - wanted.length,
    };
  });
}

/** Remember the message ids; return the messages whose ids are new. */
async function notSeen(
  { db }: StoreContext,
  session: DatabaseSession,
  messages: readonly NewMessage[],
): Promise<NewMessage[]> {
  const byKey = new Map<string, NewMessage>();
  for (const message of messages) {
    const key = seenKey(message);
    if (!byKey.has(key)) byKey.set(key, message);
  }
  const rows = await session.rows<[string]>(
    `WITH ${remember(db.now, 'SELECT k FROM unnest($1::uuid[]) AS k')} SELECT id::text FROM fresh`,
    [uuid([...byKey.keys()])],
  );
  const isNew = new Set(rows.map(([id]) => id.replaceAll('-', '')));
  return [...byKey].filter(([key]) => isNew.has(key)).map(([, message]) => message);
}

/** Split messages so that no part has a conflict key twice: a later change supersedes an earlier one. */
function passes(messages: readonly NewMessage[]): NewMessage[][] {
  const parts: NewMessage[][] = [[]];
  const times = new Map<string, number>();
  for (const message of messages) {
    const part = message.conflict === null ? 0 : (times.get(message.conflict) ?? 0);
    if (message.conflict !== null) times.set(message.conflict, part + 1);
    if (part === parts.length) parts.push([]);
    parts[part]?.push(message);
  }
  return parts;
}

const DROP_DEAD = `
  DELETE FROM rollcall.dead_letter d WHERE ${hasOneOf('d', '$1', '$2')} 
  RETURNING d.destination, d.run, d.reason, d.conflict, d.body`;

/** Sorted by an expression that has no index: to avoid a sort, the planner would scan the whole primary key. */
const TAKE_BACK = `
  WITH older AS MATERIALIZED (
    SELECT d.id, d.state FROM rollcall.delivery d WHERE ${hasOneOf('d', '$1', '$2')} ORDER BY d.id + 0 FOR UPDATE
  )
  DELETE FROM rollcall.delivery
  WHERE id = ANY (ARRAY(SELECT id FROM older WHERE state <> ${CLAIMED})) AND state <> ${CLAIMED}
  RETURNING destination, run, tries, conflict, body`;

const COLUMNS = {
  ...{ destination: 'text', lane: 'smallint', type: 'smallint', source: 'text', message_id: 'text' },
  ...{ user_id: 'text', conflict: 'text', body: 'text' },
};
const RUN = `$${Object.keys(COLUMNS).length + 1}`;

const insertSql = (now: string) => `
  INSERT INTO rollcall.delivery
    (destination, rank, state, due_at, tries, type, source, message_id, user_id, accepted_at, run, conflict, body)
  SELECT m.destination, m.lane, ${stateOf('m')}, ${now}, 0, m.type, m.source, m.message_id, m.user_id, ${now}, ${RUN}, m.conflict, m.body
  FROM (${columns(1, COLUMNS)}) AS m`;

const holdOutSql = (now: string) => `
  INSERT INTO rollcall.dead_letter
    (id, destination, lane, tries, type, source, message_id, user_id, accepted_at, last_at, run, conflict, reason, body)
  SELECT nextval(pg_get_serial_sequence('rollcall.delivery', 'id')), m.destination, m.lane, 0, m.type, m.source,
    m.message_id, m.user_id, ${now}, ${now}, ${RUN}, m.conflict, 'queue_full', m.body
  FROM (${columns(1, COLUMNS)}) AS m`;

/** Insert deliveries. Older changes are removed unless they are in flight; then the new ones wait for them. */
async function insert(
  { db }: StoreContext,
  session: DatabaseSession,
  messages: readonly NewMessage[],
  run: string | null,
  changes: CounterChanges<string>,
  queues: Queues,
): Promise<void> {
  let rows: readonly DeliveryRow[] = messages.flatMap((message) =>
    message.destinations.map((destination) => ({ ...message, destination })),
  );
  const keyed = rows.flatMap(({ conflict, replaces, destination }): Key[] => {
    if (conflict === null) return [];
    return replaces === undefined
      ? [{ conflict, destination }]
      : [
          { conflict, destination },
          { conflict: replaces, destination },
        ];
  });
  if (keyed.length > 0) {
    const older = await takeBack(session, keyed, changes);
    // Last: a delivery in flight may have died while this transaction waited for its row.
    const dropped = await session.rows<[string, string | null, DeadReason, ...Replaced]>(DROP_DEAD, keysOf(keyed));
    for (const [destination, run, reason] of dropped) changes.letterGone(destination, run, reason, 'superseded');
    const letters = dropped.map(([destination, , , conflict, body]) => [destination, conflict, body] as const);
    rows = inPlaceOfThese([...letters, ...older], rows);
  }
  const queued: DeliveryRow[] = [];
  const heldOut: DeliveryRow[] = [];
  for (const row of rows) {
    const { destination, lane } = row;
    const isHeldOut = lane !== 'deletion' && queues.isFull(destination);
    const counts = isHeldOut ? { dead: 1, heldOut: 1 } : { pending: 1, queued: lane === 'deletion' ? 0 : 1 };
    changes.add(destination, run, { deliveries: 1, untried: 1, ...counts });
    (isHeldOut ? heldOut : queued).push(row);
  }
  await session.run(insertSql(db.now), valuesOf(queued, run));
  if (heldOut.length > 0) await session.run(holdOutSql(db.now), valuesOf(heldOut, run));
}

/** Explains changes as those that they replace, the last of which counts. */
function inPlaceOfThese(
  replaced: readonly (readonly [destination: string, ...Replaced])[],
  rows: readonly DeliveryRow[],
): readonly DeliveryRow[] {
  if (replaced.length === 0) return rows;
  const keyOf = (destination: string, conflict: string | null) => `${destination} ${conflict}`;
  const bodies = new Map(replaced.map(([destination, conflict, body]) => [keyOf(destination, conflict), body]));
  return rows.map((row) => {
    const { destination, conflict, replaces = null } = row;
    const older = bodies.get(keyOf(destination, conflict)) ?? bodies.get(keyOf(destination, replaces));
    return older === undefined ? row : { ...row, body: inPlaceOf(older, row.body) };
  });
}

type DeliveryRow = NewMessage & { readonly destination: string };

function valuesOf(rows: readonly DeliveryRow[], run: string | null) {
  return [
    text(rows, ({ destination }) => destination),
    int2(rows, ({ lane }) => LANES.indexOf(lane)),
    int2(rows, ({ type }) => MESSAGE_TYPES.indexOf(type)),
    text(rows, ({ source }) => source),
    text(rows, ({ messageId }) => messageId),
    text(rows, ({ userId }) => userId),
    text(rows, ({ conflict }) => conflict),
    text(rows, ({ body }) => body),
    run,
  ];
}

/** A change that a newer one replaces. */
type Replaced = readonly [conflict: string, body: string];

interface Key {
  readonly conflict: string | null;
  readonly destination: string;
}

const keysOf = (keys: readonly Key[]) => [
  text(keys, ({ conflict }) => conflict),
  text(keys, ({ destination }) => destination),
];

/** Remove changes that newer ones supersede, unless they are in flight. Resolve to those. */
export async function takeBack(
  session: DatabaseSession,
  keys: readonly Key[],
  changes: CounterChanges<string>,
): Promise<readonly (readonly [destination: string, ...Replaced])[]> {
  const older = await session.rows<[string, string | null, number, ...Replaced]>(TAKE_BACK, keysOf(keys));
  for (const [destination, run, tries] of older) changes.takenBack(destination, run, tries);
  return older.map(([destination, , , conflict, body]) => [destination, conflict, body]);
}

/** Sizes of queues while a transaction adds to them. Deletion notices are not checked: they always fit. */
class Queues {
  private readonly before: ReadonlyMap<string, { readonly queued: number; readonly heldOut: number }>;
  private readonly changes: CounterChanges<string>;
  private readonly maxQueued: number;

  private constructor(before: Queues['before'], changes: CounterChanges<string>, maxQueued: number) {
    this.before = before;
    this.changes = changes;
    this.maxQueued = maxQueued;
  }

  static async of(
    { maxQueued, parts }: StoreContext,
    session: DatabaseSession,
    messages: readonly NewMessage[],
    changes: CounterChanges<string>,
  ) {
    const names = new Set(messages.flatMap(({ destinations }) => destinations));
    const rows = await session.rows<[string, number, number]>(COUNTERS, [text([...names]), parts.since]);
    const before = new Map(rows.map(([name, queued, heldOut]) => [name, { queued, heldOut }]));
    return new Queues(before, changes, maxQueued);
  }

  /** True if new deliveries must be held out. While any are, all new ones join them, so that the order holds. */
  isFull(destination: string): boolean {
    const { queued = 0, heldOut = 0 } = this.before.get(destination) ?? {};
    const since = this.changes.of(destination);
    return heldOut + since.heldOut > 0 || queued + since.queued >= this.maxQueued;
  }
}

const COUNTERS = countersOf('SELECT unnest($1::text[])', '$2');
