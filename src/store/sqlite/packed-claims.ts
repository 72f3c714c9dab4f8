import { MESSAGE_TYPES } from '../../message-types.ts';
import type { DeliveryIds } from '../delivery-ids.ts';
import { type Claim, type ClaimRequest, type EndpointMarks, LANES, NO_MARKS } from '../port.ts';
import { movableText, type PackedText, Places, packText, unpackText } from './packed-text.ts';

/** Claims as they cross from the store's thread: in one piece, as messages do on their way to it. */
export interface PackedClaims {
  /** How many there are for each request. */
  readonly counts: readonly number[];
  /** Fourteen for each: see `NUMBERS`. */
  readonly numbers: Float64Array;
  /** Their strings. */
  readonly text: PackedText;
  /** Sources and runs. */
  readonly names: readonly string[];
}

/** The columns of a claimed delivery, in the order of `ClaimTuple`. */
export const CLAIM_COLUMNS =
  'id, source, type, lane, run, tries, accepted_at, first_at, crashes, message_id, user_id, body, conflict, marks';

/** The place of the body among them. */
export const BODY = 11;

/** Names and runs are the numbers that stand for them. */
export type ClaimTuple = readonly [
  id: number,
  source: number,
  type: number,
  lane: number,
  run: number | null,
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

/** A number for each column; of a string its length, of a name its place in `names`. -1 for null. */
const NUMBERS = 14;
const STRINGS_FROM = 9;
const NONE = -1;

export function packClaims(
  requests: readonly (readonly ClaimTuple[])[],
  nameOf: (number: number) => string,
): PackedClaims {
  const counts = requests.map(({ length }) => length);
  const numbers = new Float64Array(counts.reduce((sum, count) => sum + count, 0) * NUMBERS);
  const names = new Places<number>();
  let text = '';
  let at = 0;
  for (const claims of requests) {
    for (const tuple of claims) {
      for (let place = 0; place < STRINGS_FROM; place += 1)
        numbers[at + place] = (tuple[place] as number | null) ?? NONE;
      numbers[at + 1] = names.of(tuple[1]);
      if (tuple[4] !== null) numbers[at + 4] = names.of(tuple[4]);
      for (let place = STRINGS_FROM; place < NUMBERS; place += 1) {
        const string = tuple[place] as string | null;
        numbers[at + place] = string === null ? NONE : string.length;
        if (string !== null) text += string;
      }
      at += NUMBERS;
    }
  }
  return { counts, numbers, text: packText(text), names: names.list.map(nameOf) };
}

/** Buffers that may be moved instead of copied. */
export function movableClaims({ numbers, text }: PackedClaims): ArrayBuffer[] {
  return [numbers.buffer as ArrayBuffer, ...movableText(text)];
}

/** For each request its claims. Their strings are parts of one. */
export function unpackClaims(
  { counts, numbers, text, names }: PackedClaims,
  requests: readonly ClaimRequest[],
  ids: DeliveryIds,
): Claim[][] {
  const whole = unpackText(text);
  let at = 0;
  let end = 0;
  const number = (place: number) => numbers[at + place] as number;
  const string = (place: number): string | null => {
    const length = number(place);
    if (length === NONE) return null;
    end += length;
    return whole.slice(end - length, end);
  };
  return requests.map(({ destination }, request) => {
    const claims: Claim[] = [];
    for (let left = counts[request] ?? 0; left > 0; left -= 1) {
      const [run, firstAt] = [number(4), number(7)];
      const [messageId, userId, body, conflict, marks] = [string(9), string(10), string(11), string(12), string(13)];
      claims.push({
        id: ids.name(number(0)),
        destination,
        source: names[number(1)] as string,
        messageId: messageId as string,
        type: MESSAGE_TYPES[number(2)] as Claim['type'],
        userId,
        body: body as string,
        lane: LANES[number(3)] as Claim['lane'],
        conflict,
        run: run === NONE ? null : (names[run] as string),
        tries: number(5),
        acceptedAt: number(6),
        firstAt: firstAt === NONE ? null : firstAt,
        marks: marks === null ? NO_MARKS : (JSON.parse(marks) as EndpointMarks),
        crashes: number(8),
      });
      at += NUMBERS;
    }
    return claims;
  });
}
