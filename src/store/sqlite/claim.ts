import { failpoint } from '../../failpoint.ts';
import type { ClaimRequest } from '../port.ts';
import { CLAIMED, READY } from '../states.ts';
import type { Connection } from './connection.ts';
import { isOwner } from './leases.ts';
import { CLAIM_COLUMNS, type ClaimTuple, type PackedClaims, packClaims } from './packed-claims.ts';

interface Claimed {
  readonly claims: PackedClaims;
  readonly nextDue: ReadonlyMap<string, number | null>;
}

type Class = readonly [retry: 0 | 1, lane: number];
/** First tries before retries, within each: deletion notices, live messages, backfills. */
const USUAL: readonly Class[] = [
  [0, 0],
  [0, 1],
  [0, 2],
  [1, 0],
  [1, 1],
  [1, 2],
];
const RETRIES_FIRST: readonly Class[] = [...USUAL.slice(3), ...USUAL.slice(0, 3)];
const BACKFILLS_FIRST: readonly Class[] = [[0, 2], ...USUAL.filter(([retry, lane]) => retry === 1 || lane !== 2)];
const ORDERS = { usual: USUAL, retries: RETRIES_FIRST, backfills: BACKFILLS_FIRST } as const;

export function claim(db: Connection, now: number, owner: number, requests: readonly ClaimRequest[]): Claimed {
  const packed = (claims: readonly (readonly ClaimTuple[])[]) => packClaims(claims, (number) => db.name(number));
  if (!isOwner(db, now, owner)) return { claims: packed(requests.map(() => [])), nextDue: new Map() };
  const nextDue = new Map<string, number | null>();
  const claims = requests.map((request) => {
    const destination = db.knownNameId(request.destination);
    if (destination === null) {
      nextDue.set(request.destination, null);
      return [];
    }
    const claimed = claimOf(db, now, owner, destination, request);
    if (claimed.length < request.limit) nextDue.set(request.destination, earliestDue(db, destination));
    return claimed;
  });
  failpoint('claim');
  return { claims: packed(claims), nextDue };
}

function claimOf(db: Connection, now: number, owner: number, destination: number, request: ClaimRequest) {
  const claimed: ClaimTuple[] = [];
  for (const [retry, lane] of ORDERS[request.order]) {
    // SQLite plans anew for each value of a bare LIMIT parameter.
    if (claimed.length >= request.limit) break;
    const rows = db.tuples<ClaimTuple>(
      `UPDATE delivery SET state = ${CLAIMED}, owner = ? WHERE id IN (
         SELECT id FROM delivery INDEXED BY delivery_ready
         WHERE state = ${READY} AND destination = ? AND (tries > 0) = ${retry} AND lane = ${lane} AND due_at <= ?
         ORDER BY due_at LIMIT ? + 0)
       RETURNING ${CLAIM_COLUMNS}`,
      owner,
      destination,
      now,
      Math.min(request.limit - claimed.length, retry === 1 ? (request.retries ?? request.limit) : request.limit),
    );
    for (const row of rows) claimed.push(row);
  }
  return claimed;
}

function earliestDue(db: Connection, destination: number): number | null {
  let earliest: number | null = null;
  for (const [retry, lane] of USUAL) {
    const row = db.tuples<[number]>(
      `SELECT due_at FROM delivery INDEXED BY delivery_ready
       WHERE state = ${READY} AND destination = ? AND (tries > 0) = ${retry} AND lane = ${lane} ORDER BY due_at LIMIT 1`,
      destination,
    )[0];
    if (row && (earliest === null || row[0] < earliest)) earliest = row[0];
  }
  return earliest;
}
