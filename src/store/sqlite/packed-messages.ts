import { MESSAGE_TYPES } from '../../message-types.ts';
import { LANES, type NewMessage } from '../port.ts';
import { movableText, type PackedText, Places, packText, unpackText } from './packed-text.ts';

/** Messages as they cross to the store's thread. What crosses costs by the piece, so that all their strings are one. */
export interface PackedMessages {
  /** Eight for each: see `NUMBERS`. */
  readonly numbers: Int32Array;
  /** Their strings. */
  readonly text: PackedText;
  readonly sources: readonly string[];
  readonly routes: readonly (readonly string[])[];
}

/** Places in `sources`, of the type, in `routes` and of the lane; lengths of id, user, body and conflict key, -1 for null. */
const NUMBERS = 8;

export function pack(messages: readonly NewMessage[]): PackedMessages {
  const sources = new Places<string>();
  const routes = new Places<readonly string[]>();
  const numbers = new Int32Array(messages.length * NUMBERS);
  let text = '';
  let at = 0;
  for (const { source, type, destinations, lane, messageId, userId, body, conflict } of messages) {
    numbers[at] = sources.of(source);
    numbers[at + 1] = MESSAGE_TYPES.indexOf(type);
    numbers[at + 2] = routes.of(destinations);
    numbers[at + 3] = LANES.indexOf(lane);
    numbers[at + 4] = messageId.length;
    numbers[at + 5] = userId === null ? -1 : userId.length;
    numbers[at + 6] = body.length;
    numbers[at + 7] = conflict === null ? -1 : conflict.length;
    text += messageId;
    if (userId !== null) text += userId;
    text += body;
    if (conflict !== null) text += conflict;
    at += NUMBERS;
  }
  return { numbers, text: packText(text), sources: sources.list, routes: routes.list };
}

export const movable = ({ text }: PackedMessages): ArrayBuffer[] => movableText(text);

/** Reads them one after the other: {@link next}, then the fields. */
export class Unpacked {
  readonly count: number;
  source = '';
  messageId = '';
  /** Place in the list of types. */
  type = 0;
  userId: string | null = null;
  body = '';
  /** Place in the list of routes. */
  route = 0;
  /** Place in the list of lanes. */
  lane = 0;
  conflict: string | null = null;
  private readonly packed: PackedMessages;
  private readonly text: string;
  private message = 0;
  private at = 0;

  constructor(packed: PackedMessages) {
    this.packed = packed;
    this.count = packed.numbers.length / NUMBERS;
    this.text = unpackText(packed.text);
  }

  next(): void {
    const { numbers, sources } = this.packed;
    const first = this.message * NUMBERS;
    this.message += 1;
    this.source = sources[numbers[first] as number] as string;
    this.type = numbers[first + 1] as number;
    this.route = numbers[first + 2] as number;
    this.lane = numbers[first + 3] as number;
    this.messageId = this.cut(numbers[first + 4] as number) ?? '';
    this.userId = this.cut(numbers[first + 5] as number);
    this.body = this.cut(numbers[first + 6] as number) ?? '';
    this.conflict = this.cut(numbers[first + 7] as number);
  }

  private cut(length: number): string | null {
    if (length < 0) return null;
    const start = this.at;
    this.at += length;
    return this.text.slice(start, this.at);
  }
}
