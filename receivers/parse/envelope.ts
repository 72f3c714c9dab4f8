import { bytesOf, isBuffer, textOf } from './bytes.ts';
import { fault, type Parsed, parseJson, parseValue } from './messages.ts';

/** Several messages in one request, each with the Idempotency-Key that it would have had alone. */
export interface Batch {
  readonly keys: readonly string[];
  /** Milliseconds since 1970. */
  readonly sentAt: number;
  /** Parses a message just before it is handled. Never throws. */
  message(index: number): Parsed;
  /** The bytes that a message would have had on its own. */
  bytes(index: number): Buffer;
}

/** A parsed but unchecked envelope. */
interface Envelope {
  batch: unknown;
  keys?: unknown;
  sentAt?: unknown;
}

/** The most messages of one batch. Fewer fit into the million bytes of a sender's batch. */
const BATCH_LIMIT = 10_000;

export const isEnvelope = (value: unknown): value is Envelope =>
  typeof value === 'object' && value !== null && 'batch' in value && !('type' in value);

/** Checks the rest of an envelope of this many messages. Returns the keys and the time, or the fault. */
function headOf({ keys, sentAt }: Omit<Envelope, 'batch'>, size: number): Pick<Batch, 'keys' | 'sentAt'> | string {
  const areKeys =
    Array.isArray(keys) && keys.length === size && keys.every((key) => typeof key === 'string' && key !== '');
  if (!areKeys) return 'keys is a list of texts, one for each message';
  const at = typeof sentAt === 'string' ? Date.parse(sentAt) : Number.NaN;
  return Number.isNaN(at) ? 'sentAt is an ISO 8601 time' : { keys, sentAt: at };
}

/** Checks an envelope that was parsed as a whole. */
export function parseEnvelope(value: Envelope, bytes: Buffer): { ok: true; batch: Batch } | (Parsed & { ok: false }) {
  const { batch: items } = value;
  if (!Array.isArray(items) || items.length === 0 || items.length > BATCH_LIMIT) {
    return fault('invalid_batch', `batch is a list of 1 to ${BATCH_LIMIT} messages`);
  }
  const head = headOf(value, items.length);
  return typeof head === 'string'
    ? fault('invalid_batch', head)
    : { ok: true, batch: new WholeBatch(head, items, bytes) };
}

function wholeOf(bytes: Buffer): Batch | undefined {
  try {
    const parsed = parseEnvelope(parseJson(textOf(bytes)) as Envelope, bytes);
    return parsed.ok ? parsed.batch : undefined;
  } catch {
    return undefined;
  }
}

/** Parses a valid batch again, to write its messages again as they were. */
const itemsOf = (bytes: Buffer): readonly unknown[] => JSON.parse(textOf(bytes)).batch;

class WholeBatch implements Batch {
  readonly keys: readonly string[];
  readonly sentAt: number;
  readonly #items: unknown[];
  readonly #bytes: Buffer;
  #untouched: readonly unknown[] | undefined;

  constructor({ keys, sentAt }: Pick<Batch, 'keys' | 'sentAt'>, items: unknown[], bytes: Buffer) {
    this.keys = keys;
    this.sentAt = sentAt;
    this.#items = items;
    this.#bytes = bytes;
  }

  message(index: number): Parsed {
    const item = this.#items[index];
    // Released once it is handed out. Otherwise collecting garbage would cost as much as checking the messages.
    this.#items[index] = undefined;
    return parseValue(item);
  }

  bytes(index: number): Buffer {
    this.#untouched ??= itemsOf(this.#bytes);
    return bytesOf(JSON.stringify(this.#untouched[index]));
  }
}

const START = '{"batch":[';
/** The text between two messages as Rollcall writes them. */
const BETWEEN = '},{"version":1,';
const AFTER = '],"keys":[';

/**
 * A batch that parses each message at its turn, which takes a fifth less time: each message is released before the next
 * one, and no text is longer than one message. Undefined unless the bytes are an envelope written the way Rollcall does.
 *
 * The messages are found by the bytes between them. The same bytes may occur within a message, but a JSON text has only
 * one reading: a piece that begins where a message does, and is valid JSON alone, is that message.
 */
export function splitEnvelope(bytes: Buffer): Batch | undefined {
  if (!isBuffer(bytes) || bytes.toString('latin1', 0, START.length) !== START) return undefined;
  const end = bytes.lastIndexOf(AFTER);
  if (end === -1) return undefined;
  const ends: number[] = [];
  for (let at = bytes.indexOf(BETWEEN, START.length); at !== -1 && at < end; at = bytes.indexOf(BETWEEN, at + 1)) {
    ends.push(at + 1);
  }
  ends.push(end);
  let rest: unknown;
  try {
    rest = parseJson(`{${bytes.toString('utf8', end + 2)}`);
  } catch {
    return undefined;
  }
  // If a name occurs twice, the later one counts.
  if (isEnvelope(rest) || 'type' in (rest as object) || ends.length > BATCH_LIMIT) return undefined;
  const head = headOf(rest as object, ends.length);
  return typeof head === 'string' ? undefined : new SplitBatch(head, ends, bytes);
}

class SplitBatch implements Batch {
  readonly keys: readonly string[];
  readonly sentAt: number;
  readonly #ends: readonly number[];
  readonly #bytes: Buffer;
  /** Replaces the pieces once one of them turns out not to be a message. */
  #whole: Batch | undefined;

  constructor({ keys, sentAt }: Pick<Batch, 'keys' | 'sentAt'>, ends: readonly number[], bytes: Buffer) {
    this.keys = keys;
    this.sentAt = sentAt;
    this.#ends = ends;
    this.#bytes = bytes;
  }

  message(index: number): Parsed {
    if (this.#whole !== undefined) return this.#whole.message(index);
    let value: unknown;
    try {
      value = parseJson(this.#bytes.toString('utf8', this.#startOf(index), this.#ends[index]));
    } catch (error) {
      this.#whole = wholeOf(this.#bytes);
      return this.#whole?.message(index) ?? fault('invalid_json', String(error));
    }
    return parseValue(value);
  }

  bytes(index: number): Buffer {
    return this.#whole?.bytes(index) ?? this.#bytes.subarray(this.#startOf(index), this.#ends[index]);
  }

  #startOf(index: number): number {
    return index === 0 ? START.length : (this.#ends[index - 1] as number) + 1;
  }
}
