import { failpoint } from '../../failpoint.ts';
import type { ClaimRequest } from '../port.ts';
import { CLAIMED, READY } from '../states.ts';
import type { Connection } from './connection.ts';
import { isOwner } from './leases.ts';

/** Columns of a claimed delivery, in the order of `CLAIM_COLUMNS`; names stand in for their numbers. */
export type ClaimTuple = readonly [
  id: number,
  source: string,
  messageId: string,
  type: number,
  userId: string | null,
  body: string,
  lane: number,
  conflict: string | null,
  run: string | null,
  tries: number,
  acceptedAt: number,
  firstAt: number | null,
  marks: string | null,
  crashes: number,
];
type StoredTuple = [
  number,
  number,
  string,
  number,
  string | null,
  string,
  number,
  string | null,
  number | null,
  number,
  number,
  number | null,
  string | null,
  number,
];

const CLAIM_COLUMNS =
  'id, source, message_id, type, user_id, body, lane, conflict, run, tries, accepted_at, first_at, marks, crashes';

interface ClaimArguments {
  readonly owner: number;
  readonly requests: readonly ClaimRequest[];
}

interface ClaimedTuples {
  /** For each request, the deliveries claimed. */
  readonly claims: readonly (readonly ClaimTuple[])[];
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

export function claim(db: Connection, now: number, { owner, requests }: ClaimArguments): ClaimedTuples {
  if (!isOwner(db, now, owner)) {
    return { claims: requests.map(() => []), nextDue: new Map() };
  }
  const nextDue = new Map<string, number | null>();
  const claims = requests.map((request) => {
    const destination = db.knownNameId(request.destination);
    if (destination === null) {
      nextDue.set(request.destination, null);
      return [];
    }
    const claimed = claimOf(db, now, owner, destination, request);
    if (claimed.length < request.limit) nextDue.set(request.destination, earliestDue(db, destination));
    return claimed.map((row) => withNames(db, row));
  });
  failpoint('claim');
  return { claims, nextDue };
}

function claimOf(db: Connection, now: number, owner: number, destination: number, request: ClaimRequest) {
  const claimed: StoredTuple[] = [];
  for (const [retry, lane] of ORDERS[request.order]) {
    // SQLite plans anew for each value of a bare LIMIT parameter.
    if (claimed.length >= request.limit) break;
    const rows = db.tuples<StoredTuple>(
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

function withNames(db: Connection, row: StoredTuple): ClaimTuple {
  const [id, source, messageId, type, userId, body, lane, conflict, run, ...rest] = row;
  const runName = run === null ? null : db.name(run);
  return [id, db.name(source), messageId, type, userId, body, lane, conflict, runName, ...rest];
}
