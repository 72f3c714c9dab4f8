import { failpoint } from '../../../kernel/failpoint.ts';
import { MESSAGE_TYPES } from '../../../message-types.ts';
import { type Claim, type ClaimRequest, type ClaimResult, type EndpointMarks, LANES, NO_MARKS } from '../../port.ts';
import { CLAIMED, READY } from '../../states.ts';
import { int2, int4, int8, text } from '../arrays.ts';
import type { StoreContext } from '../context.ts';
import type { ClaimLine, Cursors, Taken } from '../cursors.ts';
import { Parameters } from '../parameters.ts';
import { RANKS, rankArray, ranksOf } from './ranks.ts';

const ORDERS = ['usual', 'retries', 'backfills'] as const;

export class ClaimStatement {
  private readonly context: StoreContext;
  private readonly cursors: Cursors;
  private readonly sql: string;

  constructor(context: StoreContext, cursors: Cursors) {
    this.context = context;
    this.cursors = cursors;
    this.sql = claimSql(context.db.now);
  }

  async run(owner: number, requests: readonly ClaimRequest[]): Promise<ClaimResult> {
    const lines = requests.map(({ destination }) => this.cursors.line(destination));
    const given = GIVEN.values({
      owner,
      destinations: text(requests, ({ destination }) => destination),
      quotas: int4(requests, ({ limit }) => limit),
      orders: int2(requests, ({ order }) => ORDERS.indexOf(order)),
      retries: int4(requests, ({ limit, retries }) => Math.min(limit, retries ?? limit)),
      starts: int8(lines.flatMap((line) => this.cursors.startsOfClaim(line))),
    });
    const rows = await this.context.db.rows<ClaimRow>(this.sql, given);
    failpoint('claim');
    this.moveCursors(lines, requests, rows);
    return sorted(this.context, requests, rows);
  }

  private moveCursors(lines: readonly ClaimLine[], requests: readonly ClaimRequest[], rows: readonly ClaimRow[]): void {
    const taken = new Map(requests.map(({ destination }) => [destination, new Map<number, Taken>()]));
    for (const [destination, id, , , , , , rank, , , , , , , due] of rows) {
      const theirs = taken.get(destination);
      if (id === null || !theirs) continue;
      theirs.set(rank, { count: (theirs.get(rank)?.count ?? 0) + 1, lastDue: due ?? 0 });
    }
    // Null if the owner's lease has expired: nothing was looked for.
    const now = rows.find(([, id]) => id === null)?.[11] ?? null;
    if (now === null) return;
    for (const [index, request] of requests.entries()) {
      this.cursors.claimed(lines[index] as ClaimLine, request, taken.get(request.destination) ?? new Map(), now);
    }
  }
}

type ClaimRow = readonly [
  destination: string,
  /** Null in rows that only report when the destination's next delivery is due. */
  id: number | null,
  source: string,
  messageId: string,
  type: number,
  userId: string | null,
  body: string,
  rank: number,
  conflict: string | null,
  run: string | null,
  tries: number,
  /** In those rows the time, or null if the owner's lease has expired. */
  accepted: number,
  first: number | null,
  marks: string | null,
  due: number | null,
  crashes: number,
];

function sorted(context: StoreContext, requests: readonly ClaimRequest[], rows: readonly ClaimRow[]): ClaimResult {
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
  return { claims: requests.map(({ destination }) => claims.get(destination) ?? []), nextDue };
}

function claimOf(context: StoreContext, row: ClaimRow, id: number): Claim {
  const [destination, , source, messageId, type, userId, body, rank, conflict, run, tries, accepted, first, marks] =
    row;
  const crashes = row[15];
  return {
    id: context.ids.name(id),
    destination,
    source,
    messageId,
    type: MESSAGE_TYPES[type] as Claim['type'],
    userId,
    body,
    lane: LANES[rank % 3] as Claim['lane'],
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
 * Parameters of the statement that claims for all destinations. It takes each destination's ranks in the requested
 * order, by index and each from its cursor on, until the limit is reached. It skips rows that another process is
 * claiming. The ids go through an array because that leaves the planner one way to find them: the primary key.
 */
const GIVEN = new Parameters({
  ...{ owner: 'bigint', destinations: 'text[]', quotas: 'int[]', orders: 'smallint[]', retries: 'int[]' },
  // Of each rank of each destination.
  starts: 'bigint[]',
});

const claimSql = (now: string, { owner, destinations, quotas, orders, retries, starts } = GIVEN.at) => `
WITH claimed AS (
  UPDATE rollcall.delivery SET state = ${CLAIMED}, owner = ${owner}
  WHERE id = ANY (ARRAY(
    SELECT p.id FROM (
      SELECT ${[destinations, quotas, orders, retries].map((list) => `unnest(${list})`).join(', ')},
        generate_subscripts(${destinations}, 1)
    ) AS w (destination, quota, ord, retries, place), LATERAL (
      SELECT q.id FROM unnest(${RANK_LISTS}) AS t (rank), LATERAL (
        SELECT d.id FROM rollcall.delivery d
        WHERE d.state = ${READY} AND d.destination = w.destination AND d.rank = t.rank
          AND d.due_at >= (${starts})[(w.place - 1) * ${RANKS} + t.rank + 1] AND d.due_at <= ${now}
        ORDER BY d.due_at, d.accepted_at LIMIT CASE WHEN t.rank % 6 < 3 THEN w.quota ELSE w.retries END FOR UPDATE SKIP LOCKED
      ) AS q LIMIT w.quota
    ) AS p
    WHERE ${ALIVE(now)}
  ))
  RETURNING destination, id, source, message_id, type, user_id, body, rank, conflict, run, tries,
    accepted_at - ${now} AS accepted, first_at - ${now} AS first, marks, due_at, crashes, accepted_at
)
SELECT ${CLAIMED_COLUMNS} FROM (SELECT * FROM claimed ORDER BY rank % 6, rank DESC, due_at, accepted_at, id) AS c
UNION ALL
SELECT w.destination, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, CASE WHEN ${ALIVE(now)} THEN ${now} END, NULL, NULL,
  (SELECT min(n.due_at) - ${now} FROM unnest('{0,1,2,3,4,5}'::smallint[]) AS t (rank), LATERAL (
    SELECT d.due_at FROM rollcall.delivery d
    WHERE d.state = ${READY} AND d.destination = w.destination AND d.rank = t.rank AND d.due_at > ${now}
    ORDER BY d.due_at LIMIT 1) AS n), NULL
FROM unnest(${destinations}) AS w (destination)`;

const CLAIMED_COLUMNS = `destination, id, source, message_id, type, user_id, body, rank, conflict, run, tries, accepted, first,
  marks, due_at, crashes`;

const ALIVE = (now: string) =>
  `EXISTS (SELECT 1 FROM rollcall.owner o WHERE o.id = ${GIVEN.at.owner} AND o.lease_until > ${now})`;

const RANK_LISTS = `CASE w.ord ${ORDERS.map((order, index) => `WHEN ${index} THEN ${rankArray(ranksOf(order))}`).join(' ')} END`;
