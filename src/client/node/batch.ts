import { MAX_BATCH_BYTES, MAX_BATCH_COUNT, type SentBatch } from '../platform.ts';
import { SEPARATOR } from '../queue.ts';
import { version } from '../version.ts';

const library = JSON.stringify({ name: '@rollcall/client', version });
const HEAD = Buffer.from(`{"context":{"library":${library}},"batch":[\n`);
const tail = (sentAt: string) => `\n],"sentAt":"${sentAt}"}`;
const TAIL_BYTES = tail(new Date(0).toISOString()).length;

const SMALLEST = 8 * 1024;

/** The body of one request, written as messages arrive: nothing is joined, encoded or copied when it is sent. */
export class BufferBatch implements SentBatch {
  readonly since: number;
  count = 0;
  #buffer: Buffer;
  #end: number;

  constructor(since: number, buffer: Buffer = Buffer.allocUnsafeSlow(SMALLEST)) {
    this.since = since;
    this.#buffer = buffer;
    this.#end = HEAD.copy(buffer);
  }

  /** Recreates a batch from lines that `add` wrote. */
  static restore(since: number, lines: Buffer, count: number): BufferBatch {
    const batch = new BufferBatch(since, Buffer.allocUnsafeSlow(HEAD.length + lines.length + TAIL_BYTES));
    batch.#end += lines.copy(batch.#buffer, HEAD.length);
    batch.count = count;
    return batch;
  }

  get bytes(): number {
    return this.#end - HEAD.length;
  }

  add(text: string, bytes: number): boolean {
    const start = this.#end;
    const end = start + bytes;
    if (this.count === MAX_BATCH_COUNT || end - SEPARATOR.length + TAIL_BYTES > MAX_BATCH_BYTES) return false;
    this.#reserve(end + TAIL_BYTES);
    this.#buffer.write(text, start);
    this.#buffer.write(SEPARATOR, end - SEPARATOR.length, 'latin1');
    this.#end = end;
    this.count++;
    return true;
  }

  body(sentAt: string): Buffer {
    const start = this.#end - SEPARATOR.length;
    const length = this.#buffer.write(tail(sentAt), start, 'latin1');
    return this.#buffer.subarray(0, start + length);
  }

  messages(): Record<string, unknown>[] {
    return JSON.parse(`[${this.#buffer.toString('utf8', HEAD.length, this.#end - SEPARATOR.length)}]`);
  }

  /** Hands over the memory to another batch. This one is unusable afterwards. */
  recycle(): Buffer {
    return this.#buffer;
  }

  #reserve(bytes: number): void {
    if (bytes <= this.#buffer.length) return;
    const grown = Buffer.allocUnsafeSlow(Math.max(bytes, Math.min(this.#buffer.length * 2, MAX_BATCH_BYTES)));
    this.#buffer.copy(grown, 0, 0, this.#end);
    this.#buffer = grown;
  }
}
