import { isAscii } from 'node:buffer';
import { RollcallError } from '../kernel/errors.ts';
import { type Envelope, MAX_DEPTH, MAX_MESSAGE_BYTES, type Message } from '../message.ts';
import { RawObject } from '../raw-object.ts';
import { CanonicalJson, PLAIN } from './canonical-json.ts';
import { keyOf } from './known-keys.ts';
import { readOrdinary } from './ordinary.ts';
import { CANONICAL, DEEP, FIELD, PARSED, REPLACED, TEXT } from './outline.ts';

const TAB = 0x09;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const LETTER_U = 0x75;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

const BATCH = 'batch';
const WRITE_KEY = 'writeKey';
/** Fields of the body that are none of a message's. */
const OWN_NAMES = [BATCH, WRITE_KEY] as const;
type OwnName = (typeof OWN_NAMES)[number];

/** Bytes of an escape such as `\u006e`. */
const UNICODE_ESCAPE = 6;
/** What a digit stands for, -1 where a byte is none. */
const HEX = Int8Array.from({ length: 256 }, (_, byte) =>
  '0123456789abcdef'.indexOf(String.fromCharCode(byte).toLowerCase()),
);

/** Fields that messages are known by, and routed. */
const KEPT = new Set(['messageId', 'userId', 'anonymousId', 'groupId', 'previousId', 'event', 'name', 'type']);

/** What a byte does to the number of open brackets. */
const STRING = 2;
const STEPS = Int8Array.from({ length: 256 }, (_, byte) => {
  if (byte === QUOTE) return STRING;
  if (byte === OPEN_BRACE || byte === OPEN_BRACKET) return 1;
  return byte === CLOSE_BRACE || byte === CLOSE_BRACKET ? -1 : 0;
});

/**
 * Fields of the objects that are being read, by `FIELD`; those of an inner one are behind those of the outer, and go when it is
 * over. One body is read at a time: a list of its own would have to grow, which for a body full of fields took 20 ms.
 */
const stack: number[] = [];

/** A value within a body, of which nothing is built before it is asked for. */
export interface Part {
  /** Its length as it was sent. */
  readonly bytes: number;
  /** Whether something in it is nested deeper than a message may be; there, `value` is empty. */
  readonly isTooDeep: boolean;
  /**
   * Objects within an object are a `RawObject` where they are as JSON.stringify would write them. Keys named `__proto__` are
   * left out.
   *
   * @throws RollcallError `invalid_json`
   */
  value(): unknown;
  /** The message that it is, where all is as nearly all libraries write it; else null. */
  ordinary(envelope: Envelope): Message | null;
}

/**
 * The outline of a JSON body: the fields of the outermost object, and of each message in its `batch`. Reading it takes time in
 * proportion to its length, whatever it holds, so that it may be done for anybody.
 */
export class JsonBody {
  /** The messages, where `batch` is a list; of too many, the first ones and one more. */
  items: readonly Part[] | null = null;
  /** All of it, but for `batch` where that is a list. */
  readonly whole: Part;
  readonly bytes: Buffer;
  /** One character for each byte. */
  private latin1: string | null = null;
  private isAscii: boolean | null = null;
  /** The field of the list that counts as `batch` so far. */
  private batch: readonly number[] = [];
  private readonly canonical: CanonicalJson;
  private readonly maxItems: number;
  private kind = PARSED;
  /** Of `stack`. */
  private top = 0;
  private writeKeyStart = -1;
  private writeKeyEnd = -1;

  /**
   * @param maxItems - the most messages that are wanted
   * @throws RollcallError `invalid_json`
   */
  constructor(bytes: Buffer, maxItems = Number.POSITIVE_INFINITY) {
    this.bytes = bytes;
    this.maxItems = maxItems;
    this.canonical = new CanonicalJson(bytes);
    const start = this.afterSpace(hasByteOrderMark(bytes) ? 3 : 0);
    const isObject = bytes[start] === OPEN_BRACE;
    const end = isObject ? this.readFields(start, true) : this.readValue(start);
    if (this.afterSpace(end) !== bytes.length) throw invalid();
    this.whole = isObject ? this.objectPart(0, start, end) : new ValuePart(this, start, end, this.kind);
  }

  /**
   * The value of `writeKey`, where it is a string.
   *
   * @throws RollcallError `invalid_json`
   */
  get writeKey(): string | null {
    const { writeKeyStart: start, writeKeyEnd: end } = this;
    return this.bytes[start] === QUOTE ? (this.parse(start, end) as string) : null;
  }

  /** Its first bytes, as they were sent. */
  start(length: number): Buffer {
    return this.bytes.subarray(0, length);
  }

  private readFields(start: number, isWhole: boolean): number {
    const { bytes } = this;
    let at = this.afterSpace(start + 1);
    if (bytes[at] === CLOSE_BRACE) return at + 1;
    for (;;) {
      if (bytes[at] !== QUOTE) throw invalid();
      const keyStart = at + 1;
      const keyEnd = this.readString(at) - 1;
      const name = isWhole ? this.ownName(keyStart, keyEnd) : null;
      at = this.afterSpace(keyEnd + 1);
      if (bytes[at] !== COLON) throw invalid();
      at = this.afterSpace(at + 1);
      const valueStart = at;
      const isList = name === BATCH && bytes[at] === OPEN_BRACKET;
      if (name === BATCH) this.replaceBatch();
      at = isList ? this.readItems(at) : this.readValue(at);
      if (isList) this.batch = [keyStart, keyEnd, valueStart, at, REPLACED];
      else this.push(keyStart, keyEnd, valueStart, at);
      if (name !== null && !isList) this.notice(name, valueStart, at);
      at = this.afterSpace(at);
      if (bytes[at] === CLOSE_BRACE) return at + 1;
      if (bytes[at] !== COMMA) throw invalid();
      at = this.afterSpace(at + 1);
    }
  }

  private push(keyStart: number, keyEnd: number, start: number, end: number): void {
    const { top } = this;
    stack[top] = keyStart;
    stack[top + 1] = keyEnd;
    stack[top + 2] = start;
    stack[top + 3] = end;
    stack[top + 4] = this.kind;
    this.top = top + FIELD;
  }

  private ownName(start: number, end: number): OwnName | null {
    return OWN_NAMES.find((name) => isSpelled(name, this.bytes, start, end)) ?? null;
  }

  /** A list that does not count must be JSON all the same: it becomes a field, which is parsed with the others. */
  private replaceBatch(): void {
    for (const number of this.batch) stack[this.top++] = number;
    this.batch = [];
  }

  /** The last of several counts, as in JSON.parse. */
  private notice(name: OwnName, start: number, end: number): void {
    if (name === BATCH) {
      this.items = null;
      return;
    }
    this.writeKeyStart = start;
    this.writeKeyEnd = end;
  }

  private readItems(start: number): number {
    const { bytes, maxItems, top: first } = this;
    const items: Part[] = [];
    this.items = items;
    let at = this.afterSpace(start + 1);
    if (bytes[at] === CLOSE_BRACKET) return at + 1;
    for (;;) {
      const isObject = bytes[at] === OPEN_BRACE;
      const end = isObject ? this.readFields(at, false) : this.readValue(at);
      items.push(isObject ? this.objectPart(first, at, end) : new ValuePart(this, at, end, this.kind));
      this.top = first;
      // It is refused for their number: what they are is of no interest, only where they end.
      if (items.length > maxItems) return this.afterBrackets(end, 1);
      at = this.afterSpace(end);
      if (bytes[at] === CLOSE_BRACKET) return at + 1;
      if (bytes[at] !== COMMA) throw invalid();
      at = this.afterSpace(at + 1);
    }
  }

  /** Finds the end of a value, and how it can be had. */
  private readValue(at: number): number {
    const { bytes, canonical } = this;
    const byte = bytes[at];
    if (byte === QUOTE) return this.readString(at);
    if (byte === OPEN_BRACE && canonical.isObject(at, MAX_DEPTH - 1)) {
      this.kind = CANONICAL;
      return canonical.end;
    }
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) return this.readNested(at);
    this.kind = PARSED;
    let end = at;
    while (isOfScalar(bytes[end])) end += 1;
    if (end === at) throw invalid();
    return end;
  }

  private readString(start: number): number {
    const { bytes } = this;
    this.kind = TEXT;
    for (let at = start + 1; at < bytes.length; at += 1) {
      while (PLAIN[bytes[at] as number] === 1) at += 1;
      if (bytes[at] === QUOTE) return at + 1;
      this.kind = PARSED;
      if (bytes[at] === BACKSLASH) at += 1;
    }
    throw invalid();
  }

  /** By its brackets alone: whether it is JSON shows when it is parsed. */
  private readNested(start: number): number {
    return this.afterBrackets(start, 0);
  }

  /** Where as many brackets were closed as are open. Other bytes are passed over as fast as can be: strangers may send any. */
  private afterBrackets(start: number, open: number): number {
    const { bytes } = this;
    const { length } = bytes;
    let deepest = 0;
    let depth = open;
    for (let at = start; at < length; at += 1) {
      const step = STEPS[bytes[at] as number] as number;
      if (step === 0) continue;
      if (step === STRING) {
        at = this.readString(at) - 1;
        continue;
      }
      depth += step;
      if (depth > deepest) deepest = depth;
      if (depth > 0) continue;
      this.kind = deepest >= MAX_DEPTH ? DEEP : PARSED;
      return at + 1;
    }
    throw invalid();
  }

  private objectPart(first: number, start: number, end: number): Part {
    return new ObjectPart(this, stack.slice(first, this.top), start, end);
  }

  /** A string with a character for each byte, where those from `start` to before `end` are ASCII; else null. */
  textWith(start: number, end: number): string | null {
    this.isAscii ??= isAscii(this.bytes);
    if (!this.isAscii && !isAscii(this.bytes.subarray(start, end))) return null;
    this.latin1 ??= this.bytes.toString('latin1');
    return this.latin1;
  }

  /** All in one, where it may be cut to pieces. Not before anything is built of it: most of what strangers send never is. */
  private get text(): string | null {
    this.isAscii ??= isAscii(this.bytes);
    return this.isAscii ? this.textWith(0, 0) : null;
  }

  /** The object that these fields make. */
  build(fields: readonly number[]): Record<string, unknown> {
    const object: Record<string, unknown> = {};
    for (let at = 0; at < fields.length; at += FIELD) {
      const key = this.key(fields[at] as number, fields[at + 1] as number);
      const [start, end, kind] = [fields[at + 2] as number, fields[at + 3] as number, fields[at + 4] as number];
      if (kind === REPLACED) {
        this.parse(start, end);
        continue;
      }
      const value = kind === TEXT ? this.textOf(key, start + 1, end - 1) : this.valueOf(start, end, kind);
      // Setting it would not make a field, and it is left out of messages anyway.
      if (key !== '__proto__') object[key] = value;
    }
    return object;
  }

  private key(start: number, end: number): string {
    try {
      return keyOf(this.bytes, start, end);
    } catch {
      throw invalid();
    }
  }

  /** The value that stands there, of this kind. */
  valueOf(start: number, end: number, kind: number): unknown {
    if (kind === TEXT) return this.cut(start + 1, end - 1);
    if (kind === DEEP && this.bytes[start] === OPEN_BRACKET) return [];
    if (kind === DEEP || (kind === CANONICAL && end - start === 2)) return {};
    return kind === CANONICAL ? new RawObject(this.cut(start, end)) : this.parse(start, end);
  }

  /** Cuts a text out of the body. Texts that outlive the request are copied: a slice would keep the whole body in memory. */
  private textOf(key: string, start: number, end: number): string {
    return this.text === null || !KEPT.has(key) ? this.cut(start, end) : this.bytes.toString('latin1', start, end);
  }

  /** Bytes that are not UTF-8 become U+FFFD: one bad character must not cost its neighbours. */
  private cut(start: number, end: number): string {
    return this.text?.slice(start, end) ?? this.bytes.toString('utf8', start, end);
  }

  private parse(start: number, end: number): unknown {
    try {
      return JSON.parse(this.cut(start, end));
    } catch {
      throw invalid();
    }
  }

  private afterSpace(start: number): number {
    const { bytes } = this;
    let at = start;
    while ((bytes[at] as number) <= SPACE && isSpace(bytes[at])) at += 1;
    return at;
  }
}

/** What is no object. */
class ValuePart implements Part {
  private readonly body: JsonBody;
  private readonly start: number;
  private readonly end: number;
  private readonly kind: number;

  constructor(body: JsonBody, start: number, end: number, kind: number) {
    this.body = body;
    this.start = start;
    this.end = end;
    this.kind = kind;
  }

  get bytes(): number {
    return this.end - this.start;
  }

  get isTooDeep(): boolean {
    return this.kind === DEEP;
  }

  value(): unknown {
    return this.body.valueOf(this.start, this.end, this.kind);
  }

  ordinary(): null {
    return null;
  }
}

class ObjectPart implements Part {
  readonly bytes: number;
  readonly isTooDeep: boolean;
  private readonly body: JsonBody;
  private readonly fields: readonly number[];
  private readonly start: number;

  constructor(body: JsonBody, fields: readonly number[], start: number, end: number) {
    this.bytes = end - start;
    this.body = body;
    this.fields = fields;
    this.start = start;
    let isTooDeep = false;
    for (let at = FIELD - 1; at < fields.length; at += FIELD) isTooDeep ||= fields[at] === DEEP;
    this.isTooDeep = isTooDeep;
  }

  value(): Record<string, unknown> {
    return this.body.build(this.fields);
  }

  ordinary(envelope: Envelope): Message | null {
    if (this.isTooDeep || this.bytes > MAX_MESSAGE_BYTES) return null;
    const text = this.body.textWith(this.start, this.start + this.bytes);
    return text === null ? null : readOrdinary({ bytes: this.body.bytes, text, fields: this.fields }, envelope);
  }
}

/** Whether a key is this name, whose letters may be written as `\u006e`. Strangers' keys are too many to parse each of them. */
function isSpelled(name: string, bytes: Buffer, start: number, end: number): boolean {
  let at = start;
  for (let index = 0; index < name.length; index += 1) {
    const isEscaped = bytes[at] === BACKSLASH && bytes[at + 1] === LETTER_U;
    const code = isEscaped ? unescaped(bytes, at) : bytes[at];
    if (code !== name.charCodeAt(index)) return false;
    at += isEscaped ? UNICODE_ESCAPE : 1;
  }
  return at === end;
}

/** Negative where it is no escape. */
function unescaped(bytes: Buffer, start: number): number {
  let code = 0;
  for (let at = start + 2; at < start + UNICODE_ESCAPE; at += 1)
    code = (code << 4) | (HEX[bytes[at] as number] as number);
  return code;
}

function invalid(): RollcallError {
  return new RollcallError('invalid_json', 'The body must be JSON.');
}

function hasByteOrderMark(bytes: Buffer): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
}

function isSpace(byte: number | undefined): boolean {
  return byte === SPACE || byte === LINE_FEED || byte === CARRIAGE_RETURN || byte === TAB;
}

/** Numbers, `true`, `false` and `null`. */
function isOfScalar(byte: number | undefined): boolean {
  return (
    byte !== undefined &&
    byte > SPACE &&
    byte !== COMMA &&
    byte !== CLOSE_BRACE &&
    byte !== CLOSE_BRACKET &&
    byte !== QUOTE
  );
}
