import { createHash } from 'node:crypto';
import { RollcallError } from '../../errors.ts';
import { failpoint } from '../../failpoint.ts';
import { MESSAGE_TYPES } from '../../message.ts';
import { type AcceptRequest, type AcceptResult, LANES, type NewMessage } from '../port.ts';
import { acceptAlone } from './accept-alone.ts';
import { int2, int4, text, uuid } from './arrays.ts';
import { type Context, READY } from './context.ts';
import { addToBacklog } from './counters.ts';
import { Group } from './group.ts';
import { suppressed } from './suppression.ts';

/**
 * Everyday batches of one process share a statement, which is a transaction of its own: one round trip, one sync to disk.
 * What needs more than one statement (a run's step, membership changes, a full destination) goes alone.
 */
export class Intake {
  private readonly context: Context;
  private readonly sql: string;
  private readonly group: Group<AcceptRequest, AcceptResult | RollcallError>;
  /** Whether anyone is suppressed; once true it stays so for this process's life. */
  private suppressing = false;

  constructor(context: Context) {
    this.context = context;
    this.sql = acceptSql(context.db.now);
    this.group = new Group(
      (requests) => this.acceptGroup(requests),
      ({ messages }) => messages.reduce((rows, { destinations }) => rows + Math.max(1, destinations.length), 0),
    );
  }

  async accept(request: AcceptRequest): Promise<AcceptResult> {
    if (request.step || request.messages.some(({ conflict }) => conflict !== null)) {
      return acceptAlone(this.context, request);
    }
    const result = await this.group.add(request);
    if (result instanceof RollcallError) throw result;
    return result;
  }

  idle(): Promise<void> {
    return this.group.idle();
  }

  private async acceptGroup(requests: readonly AcceptRequest[]): Promise<(AcceptResult | RollcallError)[]> {
    failpoint('accept');
    const { context } = this;
    const all = requests.flatMap(({ messages }) => messages);
    const out = this.suppressing ? await suppressed(context, context.db, all) : NOBODY;
    const batch = new Batch(requests, out);
    const [row] = await context.db.rows<[boolean, boolean, string[] | null]>(this.sql, [
      this.suppressing,
      ...batch.additions(),
      context.maxQueued,
      ...batch.columns(),
      batch.size,
      context.parts.accept,
    ]);
    const [unhashed, full, fresh] = row ?? [false, false, []];
    if (unhashed) {
      this.suppressing = true;
      return this.acceptGroup(requests);
    }
    if (full) return this.acceptEach(requests);
    failpoint('commit');
    return batch.results(fresh);
  }

  /** A destination may be full after this group: each request alone tells which go too far. */
  private async acceptEach(requests: readonly AcceptRequest[]): Promise<(AcceptResult | RollcallError)[]> {
    const results: (AcceptResult | RollcallError)[] = [];
    for (const request of requests) {
      results.push(await acceptAlone(this.context, request).catch((error: RollcallError) => error));
    }
    return results;
  }
}

const NOBODY: ReadonlySet<NewMessage> = new Set();

/** What is remembered of a message id: 128 bits of a hash over source and id. */
export function seenKey({ source, messageId }: Pick<NewMessage, 'source' | 'messageId'>): Buffer {
  return createHash('sha1').update(`${source}\0${messageId}`).digest().subarray(0, 16);
}

/** The messages of a statement, each id once. */
class Batch {
  private readonly messages = new Map<string, { readonly key: Buffer; readonly message: NewMessage }>();
  /** Of each request, the ids that it was the first to bring, and the counts of its other messages. */
  private readonly parts: { readonly first: string[]; readonly repeated: number; readonly suppressed: number }[];

  constructor(requests: readonly AcceptRequest[], out: ReadonlySet<NewMessage>) {
    this.parts = requests.map(({ messages }) => {
      const wanted = out.size === 0 ? messages : messages.filter((message) => !out.has(message));
      const first: string[] = [];
      for (const message of wanted) {
        const key = seenKey(message);
        const name = key.toString('hex');
        if (this.messages.has(name)) continue;
        this.messages.set(name, { key, message });
        first.push(name);
      }
      return { first, repeated: wanted.length - first.length, suppressed: messages.length - wanted.length };
    });
  }

  get size(): number {
    return this.messages.size;
  }

  /** Per destination what it gets at most, but for those that only get deletion notices. */
  additions(): [Buffer, Buffer] {
    const added = new Map<string, number>();
    const limited = new Set<string>();
    for (const { message } of this.messages.values()) {
      for (const destination of message.destinations) {
        added.set(destination, (added.get(destination) ?? 0) + 1);
        if (message.lane !== 'deletion') limited.add(destination);
      }
    }
    const names = [...limited];
    return [text(names), int4(names.map((name) => added.get(name) ?? 0))];
  }

  columns(): Buffer[] {
    const all = [...this.messages.values()];
    const rows = all.flatMap(({ key, message }) =>
      message.destinations.map((destination) => ({ key, message, destination })),
    );
    return [
      uuid(all.map(({ key }) => key)),
      uuid(rows.map(({ key }) => key)),
      text(rows.map(({ destination }) => destination)),
      int2(rows.map(({ message }) => LANES.indexOf(message.lane))),
      int2(rows.map(({ message }) => MESSAGE_TYPES.indexOf(message.type))),
      text(rows.map(({ message }) => message.source)),
      text(rows.map(({ message }) => message.messageId)),
      text(rows.map(({ message }) => message.userId)),
      text(rows.map(({ message }) => message.body)),
    ];
  }

  /** @param fresh - ids that were new; null when all of them were */
  results(fresh: readonly string[] | null): AcceptResult[] {
    const isFresh = fresh && new Set(fresh.map((id) => id.replaceAll('-', '')));
    return this.parts.map(({ first, repeated, suppressed }) => {
      const accepted = isFresh ? first.filter((name) => isFresh.has(name)).length : first.length;
      return { accepted, duplicates: repeated + first.length - accepted, suppressed };
    });
  }
}

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
    ) AS is_full
), fresh AS (
  INSERT INTO rollcall.seen (id, day)
  SELECT k, ${now} / 86400000 FROM guard, unnest($5::uuid[]) AS k WHERE NOT guard.unhashed AND NOT guard.is_full ORDER BY k
  ON CONFLICT (id) DO NOTHING RETURNING id
), added AS (
  INSERT INTO rollcall.delivery
    (destination, turn, state, due_at, tries, type, source, message_id, user_id, accepted_at, body)
  SELECT d.destination, d.lane, ${READY}, ${now}, 0, d.type, d.source, d.message_id, d.user_id, ${now}, d.body
  FROM unnest($6::uuid[], $7::text[], $8::smallint[], $9::smallint[], $10::text[], $11::text[], $12::text[], $13::text[])
    AS d (seen, destination, lane, type, source, message_id, user_id, body)
  WHERE (d.seen IN (SELECT id FROM fresh)) IS TRUE
  RETURNING destination
), counted AS (${addToBacklog('$15::smallint', 'SELECT destination, count(*), 0 FROM added GROUP BY destination')})
SELECT unhashed, is_full,
  CASE WHEN (SELECT count(*) FROM fresh) = $14::int THEN NULL ELSE ARRAY(SELECT id::text FROM fresh) END
FROM guard`;
