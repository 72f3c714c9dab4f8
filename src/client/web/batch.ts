import { MAX_BATCH_COUNT, type SentBatch } from '../platform.ts';
import { SEPARATOR } from '../queue.ts';
import { version } from '../version.ts';

const library = JSON.stringify({ name: '@rollcall/client', version });
const tail = (sentAt: string) => `\n],"sentAt":"${sentAt}"}`;
const TAIL_BYTES = tail(new Date(0).toISOString()).length;

/** The body of one request as text. It contains the key, since a header for it would make browsers send a preflight. */
export class TextBatch implements SentBatch {
  readonly since: number;
  bytes = 0;
  readonly #head: string;
  readonly #room: number;
  readonly #texts: string[] = [];

  /** @param most largest size of the whole body, in bytes */
  constructor(since: number, writeKey: string, most: number) {
    this.since = since;
    this.#head = `{"writeKey":${JSON.stringify(writeKey)},"context":{"library":${library}},"batch":[\n`;
    this.#room = most - byteLength(this.#head) - TAIL_BYTES + SEPARATOR.length;
  }

  get count(): number {
    return this.#texts.length;
  }

  add(text: string, bytes: number): boolean {
    if (this.count === MAX_BATCH_COUNT || this.bytes + bytes > this.#room) return false;
    this.#texts.push(text);
    this.bytes += bytes;
    return true;
  }

  body(sentAt: string): string {
    return this.#head + this.#texts.join(SEPARATOR) + tail(sentAt);
  }

  messages(): Record<string, unknown>[] {
    return this.#texts.map((text) => JSON.parse(text));
  }
}

/** Bytes of UTF-8, for text without lone surrogates: JSON has none. */
export function byteLength(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0x80) continue;
    // The two halves of a surrogate pair make 4 bytes.
    bytes += unit < 0x800 || (unit >= 0xd800 && unit < 0xe000) ? 1 : 2;
  }
  return bytes;
}
