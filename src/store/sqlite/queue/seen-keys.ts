import { hash } from 'node:crypto';
import { seenText } from '../../seen-key.ts';

/** Number of 32-bit words of a key. Stored as bytes, they are the digits of a `seenKey`. */
const WORDS = 4;
export const KEY_BYTES = 4 * WORDS;

export type SeenKey = Int32Array;

export const newKey = (): SeenKey => new Int32Array(WORDS);

/** Write the key of a message id into `key`: allocating an object for each would be most of the cost. */
export function writeKey(key: SeenKey, source: string, messageId: string): void {
  const digest = hash('sha1', seenText(source, messageId), 'binary');
  for (let word = 0, at = 0; word < WORDS; word += 1, at += 4) {
    const high = (digest.charCodeAt(at) << 24) | (digest.charCodeAt(at + 1) << 16);
    key[word] = high | (digest.charCodeAt(at + 2) << 8) | digest.charCodeAt(at + 3);
  }
}

export function isAmong(key: SeenKey, stored: Uint8Array): boolean {
  const view = new DataView(stored.buffer, stored.byteOffset, stored.byteLength);
  for (let at = 0; at < stored.byteLength; at += KEY_BYTES) {
    let word = 0;
    while (word < WORDS && view.getInt32(at + 4 * word) === key[word]) word += 1;
    if (word === WORDS) return true;
  }
  return false;
}

export class SeenKeys {
  size = 0;
  private words: Int32Array;
  /** Hash table with linear probing: indexes of keys plus one, 0 for empty. At least half of the slots are empty. */
  private slots: Int32Array;

  /** @param room - initial capacity, a power of two; it grows beyond */
  constructor(room: number) {
    this.words = new Int32Array(room * WORDS);
    this.slots = new Int32Array(2 * room);
  }

  has(key: SeenKey): boolean {
    return this.slots[this.slotOf(key)] !== 0;
  }

  /** Add a key that the set does not have. */
  add(key: SeenKey): void {
    if (2 * this.size === this.slots.length) this.grow();
    this.words.set(key, this.size * WORDS);
    this.size += 1;
    this.slots[this.slotOf(key)] = this.size;
  }

  /** Add stored keys, skipping those that the set has. */
  addStored(stored: Uint8Array): void {
    const view = new DataView(stored.buffer, stored.byteOffset, stored.byteLength);
    const key = newKey();
    for (let at = 0; at < stored.byteLength; at += KEY_BYTES) {
      for (let word = 0; word < WORDS; word += 1) key[word] = view.getInt32(at + 4 * word);
      if (!this.has(key)) this.add(key);
    }
  }

  /** Remove the newest keys. */
  truncate(size: number): void {
    if (size >= this.size) return;
    this.size = size;
    this.rebuild(this.slots.length);
  }

  at(place: number): SeenKey {
    return this.words.subarray(place * WORDS, (place + 1) * WORDS);
  }

  /** Return the keys at these places in their stored form. */
  stored(places: Iterable<number>, count: number): Buffer {
    const bytes = Buffer.allocUnsafe(count * KEY_BYTES);
    let at = 0;
    for (const place of places) {
      for (let word = 0; word < WORDS; word += 1) {
        at = bytes.writeInt32BE(this.words[place * WORDS + word] as number, at);
      }
    }
    return bytes;
  }

  private slotOf(key: SeenKey): number {
    const { words, slots } = this;
    const mask = slots.length - 1;
    for (let slot = (key[0] as number) & mask; ; slot = (slot + 1) & mask) {
      const at = ((slots[slot] as number) - 1) * WORDS;
      if (at < 0) return slot;
      if (words[at] === key[0] && words[at + 1] === key[1] && words[at + 2] === key[2] && words[at + 3] === key[3]) {
        return slot;
      }
    }
  }

  private grow(): void {
    const words = new Int32Array(2 * this.words.length);
    words.set(this.words);
    this.words = words;
    this.rebuild(2 * this.slots.length);
  }

  private rebuild(length: number): void {
    this.slots = new Int32Array(length);
    for (let place = 0; place < this.size; place += 1) this.slots[this.slotOf(this.at(place))] = place + 1;
  }
}
