import { failpoint } from '../../../kernel/failpoint.ts';
import type { AcceptRequest, AcceptResult, Claim, NewMessage } from '../../port.ts';
import { CLAIMED, READY } from '../../states.ts';
import { columns } from '../arrays.ts';
import type { StoreContext } from '../context.ts';
import { countersOf, counting, QUEUED_ONES } from '../counters.ts';
import { logSql } from '../events/event-writing.ts';
import { GroupCommit } from '../group.ts';
import { idsOf, numbering, stepsFor } from '../ids.ts';
import { Parameters } from '../parameters.ts';
import { suppressed } from '../suppression.ts';
import { acceptAlone } from './accept-alone.ts';
import { AcceptBatch } from './accept-batch.ts';
import type { Claims } from './claim.ts';
import { remember } from './seen.ts';

/**
 * Accepts messages. Plain requests of a process share a statement, which is a transaction of its own: one round trip,
 * one sync to disk. Requests that need several statements (a run's step, membership changes) run alone.
 */
export class Intake {
  private readonly context: StoreContext;
  private readonly claims: Claims;
  /** Statements without and with rows for the event log, and without and with held-out deliveries. */
  private readonly sql: Readonly<Record<'plain' | 'logging', { readonly usual: string; readonly holdingOut: string }>>;
  private readonly group: GroupCommit<AcceptRequest, AcceptResult>;
  /** True if the last batch met a full queue. */
  private isHoldingOut = false;
  /** True once a suppressed user was seen, for this process's life. */
  private suppressing = false;

  constructor(context: StoreContext, claims: Claims) {
    this.context = context;
    this.claims = claims;
    const { now } = context.db;
    const both = (log: string) => ({
      usual: acceptSql(now, ADDED, log),
      holdingOut: acceptSql(now, ADDED_OR_HELD_OUT, log),
    });
    this.sql = {
      plain: both(''),
      logging: both(`, logged AS (${logSql(AFTER_ROWS, isFresh('l'))})`),
    };
    this.group = new GroupCommit(
      (requests) => this.acceptGroup(requests),
      ({ messages }) => messages.reduce((rows, { destinations }) => rows + Math.max(1, destinations.length), 0),
    );
  }

  async accept(request: AcceptRequest): Promise<AcceptResult> {
    const isAlone = request.step !== null || request.live || request.messages.some(({ conflict }) => conflict !== null);
    return isAlone ? acceptAlone(this.context, request) : this.group.add(request);
  }

  private async acceptGroup(requests: readonly AcceptRequest[]): Promise<AcceptResult[]> {
    failpoint('accept');
    const { context, claims, isHoldingOut } = this;
    const all = requests.flatMap(({ messages }) => messages);
    const out = this.suppressing ? await suppressed(context, context.db, all) : NOBODY;
    const batch = new AcceptBatch(requests, out);
    const owner = claims.mayTake(batch.owner) && !isHoldingOut ? batch.owner : null;
    const handed = batch.handed(owner);
    let answer: Answer = [false, false, false, [], 0, null];
    const write = async (): Promise<readonly (readonly Claim[])[]> => {
      const { maxQueued, parts } = context;
      const given = { suppressing: this.suppressing, ...batch.additions(), maxQueued, keys: batch.keys() };
      const counts = { messages: batch.size, steps: stepsFor(handed.length) };
      const values = [
        ...GIVEN.values({ ...given, ...counts, part: parts.accept, since: parts.since, owner }),
        ...batch.columns(handed),
        ...(batch.isLogged ? batch.logColumns() : []),
      ];
      const { usual, holdingOut } = this.sql[batch.isLogged ? 'logging' : 'plain'];
      [answer = answer] = await context.db.rows<Answer>(isHoldingOut ? holdingOut : usual, values);
      const [, , isHanded, fresh, , firsts] = answer;
      return isHanded ? batch.claims(context, idsOf(firsts, handed.length), handed, fresh) : [];
    };
    const claimed = await (owner !== null && handed.includes(true) ? claims.take(owner, write) : write());
    const [unhashed, isFull, , fresh, heldOut] = answer;
    if (unhashed) this.suppressing = true;
    else this.isHoldingOut = isFull || heldOut > 0;
    if (unhashed || (isFull && !isHoldingOut)) return this.acceptGroup(requests);
    failpoint('commit');
    return batch.results(fresh, claimed);
  }
}

/**
 * `unhashed`: suppressed users exist and were not checked. `isFull`: a queue would be too full. In both cases nothing
 * was written. `isHanded`: the owner has its deliveries. `fresh`: the new ids, null for all. `heldOut`: number of
 * deliveries held out. `firsts`: first ids of the steps (`idsOf`).
 */
type Answer = readonly [
  unhashed: boolean,
  isFull: boolean,
  isHanded: boolean,
  fresh: readonly string[] | null,
  heldOut: number,
  firsts: string | null,
];

const NOBODY: ReadonlySet<NewMessage> = new Set();

/** Parameters of a statement. The columns of its rows follow, then those for the log. */
const GIVEN = new Parameters({
  suppressing: 'boolean',
  // The most that each destination may get, except those that only get deletion notices.
  limited: 'text[]',
  added: 'int[]',
  maxQueued: 'bigint',
  keys: 'uuid[]',
  messages: 'int',
  steps: 'int',
  part: 'bigint',
  owner: 'bigint',
  since: 'bigint',
});
const { suppressing, limited, added, maxQueued, keys, messages, steps, part, owner, since } = GIVEN.at;

/** The columns of `AcceptBatch.columns`. */
const ROWS = {
  ...{ seen: 'uuid', destination: 'text', lane: 'smallint', type: 'smallint', source: 'text', message_id: 'text' },
  ...{ user_id: 'text', body: 'text', place: 'int', handed: 'boolean' },
};
const AFTER_ROWS = GIVEN.next + Object.keys(ROWS).length;

const NUMBERS = numbering(steps);

const ALL_FRESH = `(SELECT count(*) FROM fresh) = ${messages}`;
/**
 * If all ids are new, no row is looked up. `(… IN (…)) IS TRUE` uses a hash table. A plain IN becomes a join, and the
 * planner, not knowing the size of an array, makes it a nested loop.
 */
const isFresh = (row: string) => `(${ALL_FRESH} OR ${row}.seen IN (SELECT id FROM fresh)) IS TRUE`;

/** New deliveries and queue sizes of the destinations that get more than notices. */
const QUEUES = `
  SELECT n.destination, n.added, c.queued, c.held_out FROM unnest(${limited}, ${added}) AS n (destination, added),
  LATERAL (${countersOf('SELECT n.destination', since)}) AS c`;

interface Added {
  /** SQL condition under which nothing is written, since a queue would be too full. */
  readonly isFull: string;
  /** Parts of a WITH clause that write `d` and add to the counters. @param rows - a query for `d` */
  readonly parts: (now: string, rows: string) => string;
  /** SQL for the number of held-out deliveries. */
  readonly heldOut: string;
}

/** While there is room for all: one insert, and no row is read twice. */
const ADDED: Added = {
  isFull: `EXISTS (SELECT 1 FROM (${QUEUES}) AS q WHERE q.held_out > 0 OR q.queued + q.added > ${maxQueued})`,
  parts: (now, rows) =>
    `added AS (${insertSql(now, rows)}), ${counting(now, part, 'added', { pending: 'count(*)', queued: QUEUED_ONES })}`,
  heldOut: '0',
};

/** Deliveries that a queue has no room for become dead letters. Deletion notices always fit. */
const ADDED_OR_HELD_OUT: Added = {
  isFull: 'false',
  parts: (now, rows) => `
room AS MATERIALIZED (
  SELECT destination, CASE WHEN held_out > 0 THEN 0 ELSE ${maxQueued} - queued END AS room FROM (${QUEUES}) AS q
), sorted AS MATERIALIZED (
  SELECT d.*, d.lane <> 0 AND row_number() OVER (PARTITION BY d.destination, d.lane = 0 ORDER BY d.id)
    > (SELECT room FROM room WHERE room.destination = d.destination) AS is_held_out
  FROM (${rows}) AS d
), added AS (${insertSql(now, 'SELECT * FROM sorted WHERE NOT is_held_out')}
), held_out AS (
  INSERT INTO rollcall.dead_letter
    (id, destination, lane, tries, type, source, message_id, user_id, accepted_at, last_at, reason, body)
  SELECT id, destination, lane, 0, type, source, message_id, user_id, ${now}, ${now}, 'queue_full', body
  FROM sorted WHERE is_held_out RETURNING destination
), both_kinds AS (
  SELECT destination, rank, false AS is_held_out FROM added UNION ALL SELECT destination, NULL, true FROM held_out
), ${counting(now, part, 'both_kinds', {
    pending: 'count(*) FILTER (WHERE NOT is_held_out)',
    queued: QUEUED_ONES,
    dead: 'count(*) FILTER (WHERE is_held_out)',
    heldOut: 'count(*) FILTER (WHERE is_held_out)',
  })}`,
  heldOut: '(SELECT count(*) FROM held_out)',
};

function insertSql(now: string, rows: string): string {
  return `
  INSERT INTO rollcall.delivery
    (id, destination, rank, state, owner, due_at, tries, type, source, message_id, user_id, accepted_at, body)
  SELECT d.id, d.destination, d.lane, CASE WHEN h.yes THEN ${CLAIMED} ELSE ${READY} END, CASE WHEN h.yes THEN ${owner} END,
    ${now}, 0, d.type, d.source, d.message_id, d.user_id, ${now}, d.body
  FROM (${rows}) AS d, LATERAL (SELECT d.handed AND (SELECT can_hand FROM guard) AS yes) AS h
  RETURNING destination, rank`;
}

const acceptSql = (now: string, { isFull, parts, heldOut }: Added, log: string) => `
WITH guard AS MATERIALIZED (
  SELECT NOT ${suppressing} AND EXISTS (SELECT 1 FROM rollcall.suppression) AS unhashed, ${isFull} AS is_full,
    EXISTS (SELECT 1 FROM rollcall.owner WHERE id = ${owner} AND lease_until > ${now}) AS can_hand
), ${remember(
  now,
  `SELECT k FROM guard, unnest(${keys}) AS k WHERE NOT guard.unhashed AND NOT guard.is_full`,
)}, ${NUMBERS.taken}, ${parts(
  now,
  `SELECT c.*, ${NUMBERS.idAt('c.place')} AS id FROM (${columns(GIVEN.next, ROWS)}) AS c WHERE ${isFresh('c')}`,
)}${log}
SELECT unhashed, is_full, can_hand,
  CASE WHEN ${ALL_FRESH} THEN NULL ELSE ARRAY(SELECT id::text FROM fresh) END, ${heldOut}::int, ${NUMBERS.firsts}
FROM guard`;
