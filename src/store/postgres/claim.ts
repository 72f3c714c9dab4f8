import { failpoint } from '../../failpoint.ts';
import { MESSAGE_TYPES } from '../../message.ts';
import {
  type Claim,
  type ClaimRequest,
  type ClaimResult,
  type EndpointMarks,
  LANES,
  type Settlement,
} from '../port.ts';
import { int2, int4, text } from './arrays.ts';
import { CLAIMED, type Context, idName, idNumber, READY } from './context.ts';
import { Stock } from './stock.ts';

const ORDERS = ['usual', 'retries', 'backfills'] as const;

/** What an owner has in hand, as far as this process knows, and what it may have without knowing. */
export class Claims {
  private readonly context: Context;
  private readonly sql: string;
  private readonly held = new Map<number, Set<string>>();
  /** Whose claims are kept in stock: who joined first, until its lease ends. */
  private owner: number | null = null;
  private stock: Stock;
  /** How many more times to look for claims whose answer never came. */
  private doubts = 0;
  private last: Promise<unknown> = Promise.resolve();
  private handing: Promise<unknown> = Promise.resolve();

  constructor(context: Context) {
    this.context = context;
    this.sql = claimSql(context.db.now);
    this.stock = new Stock(context.db.clock);
  }

  claim(owner: number, requests: readonly ClaimRequest[]): Promise<ClaimResult> {
    return this.inTurn(() => this.ifAnswered(() => this.claimNow(owner, requests)));
  }

  /** Has `work` accept deliveries that it claims for `owner`; what it resolves to is in stock from then on. */
  handOver(work: () => Promise<readonly Claim[]>): Promise<void> {
    const { stock, owner } = this;
    const done = this.ifAnswered(async () => {
      const claims = await work();
      this.hold(owner ?? 0, claims);
      stock.add(claims);
    });
    this.handing = done.catch(() => undefined);
    return done;
  }

  /** Whom deliveries may be claimed for as they are accepted, and how many of a destination. */
  taker(): { readonly owner: number; room(destination: string): number } | null {
    const { owner, stock } = this;
    return owner === null || this.doubts > 0 ? null : { owner, room: (destination) => stock.room(destination) };
  }

  /** Says that deliveries of these destinations were accepted without being handed over. */
  accepted(destinations: Iterable<string>): void {
    for (const destination of destinations) this.stock.left(destination);
  }

  settled(owner: number, settlements: readonly Settlement[]): void {
    const held = this.held.get(owner);
    for (const { claim, verdict } of settlements) {
      held?.delete(claim.id);
      if (verdict.kind === 'retry' || verdict.kind === 'release' || claim.conflict !== null) {
        this.stock.stir(claim.destination);
      }
    }
  }

  /** How many deliveries an owner has in hand. */
  inHand(owner: number): number {
    return this.held.get(owner)?.size ?? 0;
  }

  /** Keeps a stock for this owner from now on; what another had is given back. */
  async joined(owner: number, free: Free): Promise<void> {
    const before = this.owner;
    const claims = await this.ended(before);
    this.owner = owner;
    if (before !== null) await this.giveBack(before, claims, free);
  }

  /** Ends the stock of an owner; resolves to what was in it once nothing more is handed over. */
  async ended(owner: number | null): Promise<readonly Claim[]> {
    if (owner !== this.owner) return [];
    const { stock } = this;
    this.owner = null;
    this.stock = new Stock(this.context.db.clock);
    await this.handing;
    return stock.clear(() => true);
  }

  left(owner: number): void {
    this.held.delete(owner);
  }

  /** Gives back what is in stock of a destination, or of all. */
  async freeStock(free: Free, destination?: string): Promise<void> {
    await this.handing;
    await this.freeFrom(free, (name) => destination === undefined || name === destination);
  }

  /** Gives back what the worker has not asked for in a long time. */
  freeStale(free: Free): Promise<void> {
    return this.freeFrom(free, (_, unaskedFor) => unaskedFor > STALE);
  }

  private async freeFrom(free: Free, which: (destination: string, unaskedFor: number) => boolean): Promise<void> {
    const { owner, stock } = this;
    if (owner !== null) await this.giveBack(owner, stock.clear(which), free);
  }

  private giveBack(owner: number, claims: readonly Claim[], free: Free): Promise<void> {
    const held = this.held.get(owner);
    for (const { id } of claims) held?.delete(id);
    return this.ifAnswered(async () => {
      const ids = claims.map(({ id }) => idNumber(this.context, id));
      if (ids.length > 0) await free(owner, ids);
    });
  }

  /** Has `free` give back what an owner of this process holds but was never told of. */
  freeUntold(free: Free): Promise<number> {
    return this.inTurn(async () => {
      if (this.doubts === 0) return 0;
      await this.handing;
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

  private async ifAnswered<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      // Committed or not, no one can tell: the server may even be at it still.
      this.doubts = DOUBTS;
      throw error;
    }
  }

  private hold(owner: number, claims: readonly Claim[]): void {
    const held = this.held.get(owner) ?? new Set();
    this.held.set(owner, held);
    for (const { id } of claims) held.add(id);
  }

  private async claimNow(owner: number, requests: readonly ClaimRequest[]): Promise<ClaimResult> {
    const stock = owner === this.owner ? this.stock : new Stock(this.context.db.clock);
    this.hold(owner, []);
    const looks = requests
      .map((request) => ({ ...request, limit: stock.quota(request) }))
      .filter(({ limit }) => limit > 0);
    const found = await this.look(owner, looks);
    for (const { destination, limit } of looks) {
      const count = found.claims.get(destination)?.length ?? 0;
      stock.looked(destination, count, limit, found.nextDue.get(destination) ?? null);
    }
    const nextDue: Record<string, number | null> = {};
    const claims = requests.map(({ destination, limit, order }) => {
      const fresh = found.claims.get(destination) ?? [];
      found.claims.delete(destination);
      if (order === 'usual') stock.add(fresh);
      const mine = stock.take(destination, limit, order === 'usual' ? [] : fresh);
      const due = found.nextDue.get(destination);
      if (mine.length < limit) nextDue[destination] = due === undefined ? stock.lookAt(destination) : due;
      return mine;
    });
    return { claims, nextDue };
  }

  private async look(owner: number, requests: readonly ClaimRequest[]): Promise<Found> {
    if (requests.length === 0) return { claims: new Map(), nextDue: new Map() };
    const rows = await this.context.db.rows<ClaimRow>(this.sql, [
      owner,
      text(requests.map(({ destination }) => destination)),
      int4(requests.map(({ limit }) => limit)),
      int2(requests.map(({ order }) => ORDERS.indexOf(order))),
    ]);
    failpoint('claim');
    const found = sorted(this.context, rows);
    for (const claims of found.claims.values()) this.hold(owner, claims);
    return found;
  }
}

/** Gives back what an owner has claimed, or only those named; resolves to their number. */
export type Free = (owner: number, ids?: readonly number[]) => Promise<number>;

/** What is in stock is given back when the worker has not asked for its destination in this time, in milliseconds. */
const STALE = 5_000;
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
  due: number | null,
];

interface Found {
  readonly claims: Map<string, Claim[]>;
  /** Of the destinations that were looked at. */
  readonly nextDue: ReadonlyMap<string, number | null>;
}

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
