import { failpoint } from '../../failpoint.ts';
import { MESSAGE_TYPES } from '../../message.ts';
import { type Claim, type ClaimRequest, type EndpointMarks, LANES, NO_MARKS } from '../port.ts';
import { CLAIMED, READY } from '../states.ts';
import type { Found } from '../stock.ts';
import { int2, int4, text } from './arrays.ts';
import { type Context, idName } from './context.ts';

const ORDERS = ['usual', 'retries', 'backfills'] as const;

/** Claims what is ready in the database. */
export class ClaimStatement {
  private readonly context: Context;
  private readonly sql: string;

  constructor(context: Context) {
    this.context = context;
    this.sql = claimSql(context.db.now);
  }

  async run(owner: number, requests: readonly ClaimRequest[]): Promise<Found> {
    const rows = await this.context.db.rows<ClaimRow>(this.sql, [
      owner,
      text(requests, ({ destination }) => destination),
      int4(requests, ({ limit }) => limit),
      int2(requests, ({ order }) => ORDERS.indexOf(order)),
      int4(requests, ({ limit, retries }) => Math.min(limit, retries ?? limit)),
    ]);
    failpoint('claim');
    return sorted(this.context, rows);
  }
}

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
  due: number | null,
  crashes: number,
];

function sorted(context: Context, rows: readonly ClaimRow[]): Found {
  const claims = new Map<string, Claim[]>();
  const nextDue = new Map<string, number | null>();
  for (const row of rows) {
    const [destination, id] = row;
    if (id === null) {
      nextDue.set(destination, context.db.local(row[14]));
      continue;
    }
    const claim = claimOf(context, row, id);
    const others = claims.get(destination);
    if (others) others.push(claim);
    else claims.set(destination, [claim]);
  }
  return { claims, nextDue };
}

function claimOf(context: Context, row: ClaimRow, id: number): Claim {
  const [destination, , source, messageId, type, userId, body, turn, conflict, run, tries, accepted, first, marks] =
    row;
  const crashes = row[15];
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
    crashes,
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
    SELECT p.id FROM unnest($2::text[], $3::int[], $4::smallint[], $5::int[]) AS w (destination, quota, ord, retries), LATERAL (
      SELECT q.id FROM unnest(${turns('w.ord')}) AS t (turn), LATERAL (
        SELECT d.id FROM rollcall.delivery d
        WHERE d.state = ${READY} AND d.destination = w.destination AND d.turn = t.turn AND d.due_at <= ${now}
        ORDER BY d.due_at LIMIT CASE WHEN t.turn < 3 THEN w.quota ELSE w.retries END FOR UPDATE SKIP LOCKED
      ) AS q LIMIT w.quota
    ) AS p
    WHERE EXISTS (SELECT 1 FROM rollcall.owner o WHERE o.id = $1 AND o.lease_until > ${now})
  ))
  RETURNING destination, id, source, message_id, type, user_id, body, turn, conflict, run, tries,
    accepted_at - ${now} AS accepted, first_at - ${now} AS first, marks, due_at, crashes
)
SELECT * FROM (SELECT * FROM claimed ORDER BY turn, due_at, id) AS c
UNION ALL
SELECT w.destination, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  (SELECT min(n.due_at) - ${now} FROM unnest(${turns('0')}) AS t (turn), LATERAL (
    SELECT d.due_at FROM rollcall.delivery d
    WHERE d.state = ${READY} AND d.destination = w.destination AND d.turn = t.turn AND d.due_at > ${now}
    ORDER BY d.due_at LIMIT 1) AS n), NULL
FROM unnest($2::text[]) AS w (destination)`;

function turns(order: string): string {
  const lists = ["'{0,1,2,3,4,5}'", "'{3,4,5,0,1,2}'", "'{2,0,1,3,4,5}'"].map((list) => `${list}::smallint[]`);
  return `CASE ${order} WHEN 0 THEN ${lists[0]} WHEN 1 THEN ${lists[1]} ELSE ${lists[2]} END`;
}
