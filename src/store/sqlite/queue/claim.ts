import { failpoint } from '../../../kernel/failpoint.ts';
import { type ClaimRequest, LANES } from '../../port.ts';
import { CLAIM_ORDERS, CLAIMED, READY } from '../../states.ts';
import type { Connection } from '../connection.ts';
import { BODY, CLAIM_COLUMNS, type ClaimedRow } from './claimed-rows.ts';
import { isOwner } from './leases.ts';

interface Claimed {
  readonly claims: readonly (readonly ClaimedRow[])[];
  readonly nextDue: ReadonlyMap<string, number | null>;
}

/** Rows that one statement claims at most, and characters of bodies after which no further statement runs. */
const ROWS = 256;
const CHARACTERS = 16_000_000;

const isOfRank = (rank: number) => `(tries > 0) = ${rank < LANES.length ? 0 : 1} AND lane = ${rank % LANES.length}`;

export function claim(db: Connection, now: number, owner: number, requests: readonly ClaimRequest[]): Claimed {
  if (!isOwner(db, now, owner)) return { claims: requests.map(() => []), nextDue: new Map() };
  const nextDue = new Map<string, number | null>();
  const taken = { characters: 0 };
  const claims = requests.map((request) => {
    const destination = db.knownNameId(request.destination);
    if (destination === null) {
      nextDue.set(request.destination, null);
      return [];
    }
    const claimed = claimOf(db, now, owner, destination, request, taken);
    if (claimed.length < request.limit) nextDue.set(request.destination, earliestDue(db, destination));
    return claimed;
  });
  failpoint('claim');
  return { claims, nextDue };
}

function claimOf(
  db: Connection,
  now: number,
  owner: number,
  destination: number,
  request: ClaimRequest,
  taken: { characters: number },
) {
  const claimed: ClaimedRow[] = [];
  for (const rank of CLAIM_ORDERS[request.order]) {
    const most = rank < LANES.length ? request.limit : (request.retries ?? request.limit);
    for (let left = Math.min(request.limit - claimed.length, most); left > 0 && taken.characters < CHARACTERS; ) {
      const rows = claimRows(db, now, owner, destination, rank, Math.min(left, ROWS));
      for (const row of rows) {
        claimed.push(named(db, row));
        taken.characters += row[BODY].length;
      }
      left = rows.length < ROWS ? 0 : left - ROWS;
    }
  }
  return claimed;
}

/** A row of the table, with numbers for names. */
type NumberedRow = readonly [number, source: number, number, number, run: number | null, ...Rest<ClaimedRow>];
type Rest<T> = T extends readonly [unknown, unknown, unknown, unknown, unknown, ...infer R] ? R : never;

function named(db: Connection, [id, source, type, lane, run, ...rest]: NumberedRow): ClaimedRow {
  return [id, db.name(source), type, lane, run === null ? null : db.name(run), ...rest];
}

function claimRows(db: Connection, now: number, owner: number, destination: number, rank: number, limit: number) {
  // `+ 0`: SQLite plans again for each value of a bare LIMIT parameter.
  return db.tuples<NumberedRow>(
    `UPDATE delivery SET state = ${CLAIMED}, owner = ? WHERE id IN (
       SELECT id FROM delivery INDEXED BY delivery_ready
       WHERE state = ${READY} AND destination = ? AND ${isOfRank(rank)} AND due_at <= ?
       ORDER BY due_at LIMIT ? + 0)
     RETURNING ${CLAIM_COLUMNS}`,
    owner,
    destination,
    now,
    limit,
  );
}

function earliestDue(db: Connection, destination: number): number | null {
  let earliest: number | null = null;
  for (const rank of CLAIM_ORDERS.usual) {
    const row = db.tuples<[number]>(
      `SELECT due_at FROM delivery INDEXED BY delivery_ready
       WHERE state = ${READY} AND destination = ? AND ${isOfRank(rank)} ORDER BY due_at LIMIT 1`,
      destination,
    )[0];
    if (row && (earliest === null || row[0] < earliest)) earliest = row[0];
  }
  return earliest;
}
