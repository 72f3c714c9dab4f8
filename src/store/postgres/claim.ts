import { failpoint } from '../../failpoint.ts';
import { MESSAGE_TYPES } from '../../message.ts';
import { type Claim, type ClaimRequest, type ClaimResult, type EndpointMarks, LANES } from '../port.ts';
import { int2, int4, text } from './arrays.ts';
import { CLAIMED, type Context, idName, READY } from './context.ts';

const ORDERS = ['usual', 'retries', 'backfills'] as const;

/** What an owner has in hand, as far as this process knows, and what it may have without knowing. */
export class Claims {
  private readonly context: Context;
  private readonly sql: string;
  private readonly held = new Map<number, Set<string>>();
  /** How many more times to look for claims whose answer never came. */
  private doubts = 0;
  private last: Promise<unknown> = Promise.resolve();

  constructor(context: Context) {
    this.context = context;
    this.sql = claimSql(context.db.now);
  }

  claim(owner: number, requests: readonly ClaimRequest[]): Promise<ClaimResult> {
    return this.inTurn(async () => {
      try {
        return await this.claimNow(owner, requests);
      } catch (error) {
        // Committed or not, no one can tell: the server may even be at it still.
        this.doubts = DOUBTS;
        throw error;
      }
    });
  }

  settled(owner: number, ids: readonly string[]): void {
    const held = this.held.get(owner);
    for (const id of ids) held?.delete(id);
  }

  left(owner: number): void {
    this.held.delete(owner);
  }

  /** Has `free` give back what an owner of this process holds but was never told of. */
  freeUntold(free: (owner: number, ids: readonly number[]) => Promise<number>): Promise<number> {
    return this.inTurn(async () => {
      if (this.doubts === 0) return 0;
      let freed = 0;
      for (const [owner, held] of this.held) {
        const rows = await this.context.db.rows<[number]>(
          `SELECT id FROM rollcall.delivery WHERE state = ${CLAIMED} AND owner = $1`,
          [owner],
        );
        const untold = rows.map(([id]) => id).filter((id) => !held.has(idName(this.context, id)));
        if (untold.length > 0) freed += await free(owner, untold);
      }
      this.doubts -= 1;
      return freed;
    });
  }

  /** One after the other: what is on its way to the worker must not pass for untold. */
  private inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.last.then(work, work);
    this.last = done.catch(() => undefined);
    return done;
  }

  private async claimNow(owner: number, requests: readonly ClaimRequest[]): Promise<ClaimResult> {
    const held = this.held.get(owner) ?? new Set();
    this.held.set(owner, held);
    const rows = await this.context.db.rows<ClaimRow>(this.sql, [
      owner,
      text(requests.map(({ destination }) => destination)),
      int4(requests.map(({ limit }) => limit)),
      int2(requests.map(({ order }) => ORDERS.indexOf(order))),
    ]);
    failpoint('claim');
    const result = sorted(this.context, requests, rows);
    for (const claims of result.claims) for (const { id } of claims) held.add(id);
    return result;
  }
}

/** Rescues (one every half minute) that look for them: longer than any statement may run. */
const DOUBTS = 3;

type ClaimRow = readonly [
  destination: string,
  /** Null in the rows that only tell when the destination's next delivery is due. */
  id: number | null,
  source: string,
  messageId: string,
  type: number,
  userId: string | null,
  body: string,
  turn: number,
  conflict: string | null,
  run: string | null,
  tries: number,
  accepted: number,
  first: number | null,
  marks: string | null,
  due: number,
];

function sorted(context: Context, requests: readonly ClaimRequest[], rows: readonly ClaimRow[]): ClaimResult {
  const dueIn = new Map<string, number>();
  const claimed = new Map<string, Claim[]>(requests.map(({ destination }) => [destination, []]));
  for (const row of rows) {
    if (row[1] === null) dueIn.set(row[0], row[14]);
    else claimed.get(row[0])?.push(claimOf(context, row, row[1]));
  }
  const nextDue: Record<string, number | null> = {};
  const claims = requests.map(({ destination, limit }) => {
    const mine = claimed.get(destination)?.splice(0, limit) ?? [];
    if (mine.length < limit) nextDue[destination] = context.db.local(dueIn.get(destination) ?? null);
    return mine;
  });
  return { claims, nextDue };
}

const NO_MARKS: EndpointMarks = {};

function claimOf(context: Context, row: ClaimRow, id: number): Claim {
  const [destination, , source, messageId, type, userId, body, turn, conflict, run, tries, accepted, first, marks] =
    row;
  return {
    id: idName(context, id),
    destination,
    source,
    messageId,
    type: MESSAGE_TYPES[type] as Claim['type'],
    userId,
    body,
    lane: LANES[turn % 3] as Claim['lane'],
    conflict,
    run,
    tries,
    acceptedAt: context.db.local(accepted),
    firstAt: context.db.local(first),
    marks: marks === null ? NO_MARKS : (JSON.parse(marks) as EndpointMarks),
  };
}

/**
 * One statement for all destinations. Per destination the six turns are taken up in the order asked for, each from the
 * index, until the limit is reached; rows that another process is claiming right now are passed over. The ids go through an array because
 * that leaves the planner one way to find them: the primary key.
 */
const claimSql = (now: string) => `
WITH claimed AS (
  UPDATE rollcall.delivery SET state = ${CLAIMED}, owner = $1
  WHERE id = ANY (ARRAY(
    SELECT p.id FROM unnest($2::text[], $3::int[], $4::smallint[]) AS w (destination, quota, ord), LATERAL (
      SELECT q.id FROM unnest(${turns('w.ord')}) AS t (turn), LATERAL (
        SELECT d.id FROM rollcall.delivery d
        WHERE d.state = ${READY} AND d.destination = w.destination AND d.turn = t.turn AND d.due_at <= ${now}
        ORDER BY d.due_at LIMIT w.quota FOR UPDATE SKIP LOCKED
      ) AS q LIMIT w.quota
    ) AS p
    WHERE EXISTS (SELECT 1 FROM rollcall.owner o WHERE o.id = $1 AND o.lease_until > ${now})
  ))
  RETURNING destination, id, source, message_id, type, user_id, body, turn, conflict, run, tries,
    accepted_at - ${now} AS accepted, first_at - ${now} AS first, marks, due_at
)
SELECT * FROM (SELECT * FROM claimed ORDER BY turn, due_at, id) AS c
UNION ALL
SELECT w.destination, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  (SELECT min(n.due_at) - ${now} FROM unnest(${turns('0')}) AS t (turn), LATERAL (
    SELECT d.due_at FROM rollcall.delivery d
    WHERE d.state = ${READY} AND d.destination = w.destination AND d.turn = t.turn AND d.due_at > ${now}
    ORDER BY d.due_at LIMIT 1) AS n)
FROM unnest($2::text[]) AS w (destination)`;

function turns(order: string): string {
  const lists = ["'{0,1,2,3,4,5}'", "'{3,4,5,0,1,2}'", "'{2,0,1,3,4,5}'"].map((list) => `${list}::smallint[]`);
  return `CASE ${order} WHEN 0 THEN ${lists[0]} WHEN 1 THEN ${lists[1]} ELSE ${lists[2]} END`;
}
