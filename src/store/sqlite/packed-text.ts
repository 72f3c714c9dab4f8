import { isAscii } from 'node:buffer';

/** Strings in a row, as they cross between threads: as bytes, of which nothing is copied, where they are many. */
export type PackedText = string | Uint8Array;

/** Characters from which on they cross as bytes; below it, a buffer of its own costs more than it saves. */
const MANY = 4_096;

/** Packs a text. A character that is not well-formed becomes another of the same size, as it would in the database. */
export function packText(text: string): PackedText {
  return text.length < MANY ? text : Buffer.from(text);
}

export function unpackText(text: PackedText): string {
  if (typeof text === 'string') return text;
  const bytes = Buffer.from(text.buffer, text.byteOffset, text.byteLength);
  return bytes.toString(isAscii(bytes) ? 'latin1' : 'utf8');
}

/** The buffer, if it is nobody else's and may be moved instead of copied. */
export function movableText(text: PackedText): ArrayBuffer[] {
  return typeof text !== 'string' && text.byteLength === text.buffer.byteLength ? [text.buffer as ArrayBuffer] : [];
}

/** Each of them once, with its place in the list. */
export class Places<T> {
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
