import { RollcallError } from '../../errors.ts';
import { failpoint } from '../../failpoint.ts';
import type { AcceptRequest, AcceptResult, NewMessage } from '../port.ts';
import { CLAIMED, READY } from '../states.ts';
import { acceptAlone } from './accept-alone.ts';
import { Batch } from './accept-batch.ts';
import { bool, columns, int8 } from './arrays.ts';
import type { Claims } from './claim.ts';
import type { Context } from './context.ts';
import { addToBacklog } from './counters.ts';
import { Group } from './group.ts';
import { Ids } from './ids.ts';
import { remember } from './seen.ts';
import { suppressed } from './suppression.ts';

/**
 * Everyday batches of one process share a statement, which is a transaction of its own: one round trip, one sync to disk.
 * What needs more than one statement (a run's step, membership changes, a full destination) goes alone.
 */
export class Intake {
  private readonly context: Context;
  private readonly claims: Claims;
  private readonly ids: Ids;
  private readonly sql: string;
  private readonly group: Group<AcceptRequest, AcceptResult | RollcallError>;
  /** Whether anyone is suppressed; once true it stays so for this process's life. */
  private suppressing = false;

  constructor(context: Context, claims: Claims) {
    this.context = context;
    this.claims = claims;
    this.ids = new Ids(context);
    this.sql = acceptSql(context.db.now);
    this.group = new Group(
      (requests) => this.acceptGroup(requests),
      ({ messages }) => messages.reduce((rows, { destinations }) => rows + Math.max(1, destinations.length), 0),
    );
  }

  async accept(request: AcceptRequest): Promise<AcceptResult> {
    if (request.step || request.messages.some(({ conflict }) => conflict !== null)) {
      return this.acceptAlone(request);
    }
    const result = await this.group.add(request);
    if (result instanceof RollcallError) throw result;
    return result;
  }

  private async acceptGroup(requests: readonly AcceptRequest[]): Promise<(AcceptResult | RollcallError)[]> {
    failpoint('accept');
    const { context, claims } = this;
    const all = requests.flatMap(({ messages }) => messages);
    const out = this.suppressing ? await suppressed(context, context.db, all) : NOBODY;
    const batch = new Batch(requests, out);
    const ids = await this.ids.take(batch.rows.length);
    const taker = claims.taker();
    const handed = batch.handed(taker?.room ?? (() => 0));
    let answer: Answer = [false, false, false, []];
    const write = async () => {
      const values = [
        this.suppressing,
        ...batch.additions(),
        context.maxQueued,
        ...batch.columns(),
        int8(ids),
        bool(handed),
        batch.size,
        context.parts.accept,
        taker?.owner ?? null,
      ];
      [answer = answer] = await context.db.rows<Answer>(this.sql, values);
      const [, , isHanded, fresh] = answer;
      return isHanded ? batch.claims(context, ids, handed, fresh) : [];
    };
    await (handed.includes(true) ? claims.handOver(write) : write());
    const [unhashed, full, isHanded, fresh] = answer;
    if (unhashed) {
      this.suppressing = true;
      return this.acceptGroup(requests);
    }
    if (full) return this.acceptEach(requests);
    claims.accepted(batch.waiting(isHanded ? handed : []));
    failpoint('commit');
    return batch.results(fresh);
  }

  /** A destination may be full after this group: each request alone tells which go too far. */
  private async acceptEach(requests: readonly AcceptRequest[]): Promise<(AcceptResult | RollcallError)[]> {
    const results: (AcceptResult | RollcallError)[] = [];
    for (const request of requests) {
      results.push(await this.acceptAlone(request).catch((error: RollcallError) => error));
    }
    return results;
  }

  private async acceptAlone(request: AcceptRequest): Promise<AcceptResult> {
    const result = await acceptAlone(this.context, request);
    this.claims.accepted(new Set(request.messages.flatMap(({ destinations }) => destinations)));
    return result;
  }
}

/**
 * Whether it was not looked for suppressed users although there are some, whether a destination is full (in both cases
 * nothing was written), whether what was to be handed over is; the ids that were new, null for all of them.
 */
type Answer = readonly [unhashed: boolean, full: boolean, isHanded: boolean, fresh: readonly string[] | null];

const NOBODY: ReadonlySet<NewMessage> = new Set();

/**
 * `(… IN (…)) IS TRUE` is looked up in a hash table; a plain IN becomes a join, which the planner, knowing nothing of the
 * size of an array, makes a nested loop.
 */
const acceptSql = (now: string) => `
WITH guard AS MATERIALIZED (
  SELECT NOT $1::boolean AND EXISTS (SELECT 1 FROM rollcall.suppression) AS unhashed,
    EXISTS (
      SELECT 1 FROM unnest($2::text[], $3::int[]) AS n (destination, added)
      WHERE (SELECT coalesce(sum(b.pending), 0) FROM rollcall.backlog b WHERE b.destination = n.destination) + n.added > $4::bigint
    ) AS is_full,
    EXISTS (SELECT 1 FROM rollcall.owner WHERE id = $18::bigint AND lease_until > ${now}) AS can_hand
), ${remember(
  now,
  'SELECT k FROM guard, unnest($5::uuid[]) AS k WHERE NOT guard.unhashed AND NOT guard.is_full ORDER BY k',
)}, added AS (
  INSERT INTO rollcall.delivery
    (id, destination, turn, state, owner, due_at, tries, type, source, message_id, user_id, accepted_at, body)
  SELECT d.id, d.destination, d.lane, CASE WHEN h.yes THEN ${CLAIMED} ELSE ${READY} END, CASE WHEN h.yes THEN $18::bigint END,
    ${now}, 0, d.type, d.source, d.message_id, d.user_id, ${now}, d.body
  FROM (${columns(6, {
    ...{ seen: 'uuid', destination: 'text', lane: 'smallint', type: 'smallint', source: 'text', message_id: 'text' },
    ...{ user_id: 'text', body: 'text', id: 'bigint', handed: 'boolean' },
  })}) AS d,
    LATERAL (SELECT d.handed AND (SELECT can_hand FROM guard) AS yes) AS h
  WHERE (d.seen IN (SELECT id FROM fresh)) IS TRUE
  RETURNING destination
), counted AS (${addToBacklog('$17::smallint', 'SELECT destination, count(*), 0 FROM added GROUP BY destination')})
SELECT unhashed, is_full, can_hand,
  CASE WHEN (SELECT count(*) FROM fresh) = $16::int THEN NULL ELSE ARRAY(SELECT id::text FROM fresh) END
FROM guard`;
