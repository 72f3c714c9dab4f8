import { isAscii } from 'node:buffer';
import { MESSAGE_TYPES } from '../../message-types.ts';
import { LANES, type NewMessage } from '../port.ts';

/** Messages as they cross to the store's thread. What crosses costs by the piece, so that all their strings are one. */
export interface PackedMessages {
  /** Eight for each: see `NUMBERS`. */
  readonly numbers: Int32Array;
  /** Their strings in a row; as bytes, of which nothing is copied, where they are many. */
  readonly text: string | Uint8Array;
  readonly sources: readonly string[];
  readonly routes: readonly (readonly string[])[];
}

/** Places in `sources`, of the type, in `routes` and of the lane; lengths of id, user, body and conflict key, -1 for null. */
const NUMBERS = 8;
/** Characters from which on they cross as bytes; below it, a buffer of its own costs more than it saves. */
const MANY = 4_096;

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
  // What is not well-formed gets a character that takes as much room, as it would in the database.
  return { numbers, text: text.length < MANY ? text : Buffer.from(text), sources: sources.list, routes: routes.list };
}

/** What may be moved instead of copied: a buffer that is nobody else's. */
export function movable({ text }: PackedMessages): ArrayBuffer[] {
  return typeof text !== 'string' && text.byteLength === text.buffer.byteLength ? [text.buffer as ArrayBuffer] : [];
}

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
    this.text = textOf(packed.text);
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

function textOf(text: string | Uint8Array): string {
  if (typeof text === 'string') return text;
  const bytes = Buffer.from(text.buffer, text.byteOffset, text.byteLength);
  return bytes.toString(isAscii(bytes) ? 'latin1' : 'utf8');
}

/** Each of them once, with its place in the list. */
class Places<T> {
  readonly list: T[] = [];
  private last: T | undefined;
  private lastPlace = 0;
  private readonly places = new Map<T, number>();

  of(value: T): number {
    if (value === this.last && this.list.length > 0) return this.lastPlace;
    let place = this.places.get(value);
    if (place === undefined) {
      place = this.list.push(value) - 1;
      this.places.set(value, place);
    }
    this.last = value;
    this.lastPlace = place;
    return place;
  }
}
