import { MESSAGE_TYPES } from '../../../message-types.ts';
import type { DeliveryIds } from '../../delivery-ids.ts';
import { type Claim, type EndpointMarks, LANES, NO_MARKS } from '../../port.ts';

/** The columns of a claimed delivery, in the order of {@link ClaimedRow}. */
export const CLAIM_COLUMNS =
  'id, source, type, lane, run, tries, accepted_at, first_at, crashes, message_id, user_id, body, conflict, marks';

/** Index of the body among them. */
export const BODY = 11;

/** A claimed delivery as it crosses threads: a tuple costs half of an object with as many keys. */
export type ClaimedRow = readonly [
  id: number,
  source: string,
  type: number,
  lane: number,
  run: string | null,
  tries: number,
  acceptedAt: number,
  firstAt: number | null,
  crashes: number,
  messageId: string,
  userId: string | null,
  body: string,
  conflict: string | null,
  marks: string | null,
];

export function claimOf(row: ClaimedRow, destination: string, ids: DeliveryIds): Claim {
  const [id, source, type, lane, run, tries, acceptedAt, firstAt, crashes, messageId, userId, body, conflict, marks] =
    row;
  return {
    id: ids.name(id),
    destination,
    source,
    messageId,
    type: MESSAGE_TYPES[type] as Claim['type'],
    userId,
    body,
    lane: LANES[lane] as Claim['lane'],
    conflict,
    run,
    tries,
    acceptedAt,
    firstAt,
    marks: marks === null ? NO_MARKS : (JSON.parse(marks) as EndpointMarks),
    crashes,
  };
}
