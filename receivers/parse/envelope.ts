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
    : { ok: true, batch: new ParsedBatch(head, bytes, [], items) };
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
  return typeof head === 'string' ? undefined : new ParsedBatch(head, bytes, ends);
}

class ParsedBatch implements Batch {
  readonly keys: readonly string[];
  readonly sentAt: number;
  readonly #bytes: Buffer;
  /** The end of each message in the bytes. */
  readonly #ends: readonly number[];
  /** Messages parsed together: always, or once a piece turns out not to be a message. */
  #items: unknown[] | undefined;
  #untouched: readonly unknown[] | undefined;

  constructor(
    { keys, sentAt }: Pick<Batch, 'keys' | 'sentAt'>,
    bytes: Buffer,
    ends: readonly number[],
    items?: unknown[],
  ) {
    this.keys = keys;
    this.sentAt = sentAt;
    this.#bytes = bytes;
    this.#ends = ends;
    this.#items = items;
  }

  message(index: number): Parsed {
    if (this.#items === undefined) {
      try {
        return parseValue(parseJson(this.#bytes.toString('utf8', this.#startOf(index), this.#ends[index])));
      } catch (error) {
        this.#items = itemsOf(this.#bytes, this.keys.length, parseJson);
        if (this.#items === undefined) return fault('invalid_json', String(error));
      }
    }
    const item = this.#items[index];
    // Released once it is handed out. Otherwise collecting garbage would cost as much as checking the messages.
    this.#items[index] = undefined;
    return parseValue(item);
  }

  bytes(index: number): Buffer {
    if (this.#items === undefined) return this.#bytes.subarray(this.#startOf(index), this.#ends[index]);
    // Parsed again, to write each message as it was.
    this.#untouched ??= itemsOf(this.#bytes, this.keys.length, JSON.parse);
    return bytesOf(JSON.stringify(this.#untouched?.[index]));
  }

  #startOf(index: number): number {
    return index === 0 ? START.length : (this.#ends[index - 1] as number) + 1;
  }
}

function itemsOf(bytes: Buffer, size: number, parse: (text: string) => unknown): unknown[] | undefined {
  try {
    const { batch } = parse(textOf(bytes)) as Envelope;
    return Array.isArray(batch) && batch.length === size ? batch : undefined;
  } catch {
    return undefined;
  }
}
