const QUOTE = 0x22;
const PLUS = 0x2b;
const COMMA = 0x2c;
const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const UNDERSCORE = 0x5f;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/** 1 for a byte that stands for itself within a string. */
export const PLAIN = Uint8Array.from({ length: 256 }, (_, byte) =>
  Number(byte >= 0x20 && byte !== QUOTE && byte !== BACKSLASH),
);
/** The characters that JSON.stringify writes after a backslash, but for `\u`. */
const SHORT_ESCAPES = bytesOf('"\\bfnrt');
const LETTER_U = 0x75;
const LITERALS: ReadonlyMap<number, Uint8Array> = new Map(
  ['true', 'false', 'null'].map((word) => [word.charCodeAt(0), Buffer.from(word)]),
);

/** Every double keeps this many decimal digits. */
const SAFE_DIGITS = 15;
/** Zeros after the point from which on a number is written with an exponent. */
const MAX_ZEROS = 5;
/** Objects with more keys are not checked for doubles, as each is compared with all before it. */
const MAX_KEYS = 48;
/** The cost of a second look at a text beside its length, in bytes that are looked at once. */
const SECOND_LOOK = 64;

/**
 * Recognises JSON that is as JSON.stringify writes it: `JSON.stringify(JSON.parse(text)) === text`. Says no in case of doubt,
 * and where a key is `__proto__`. Takes time in proportion to the length of all bytes, whatever they are.
 */
export class CanonicalJson {
  /** Where the value that was recognised ends. */
  end = 0;
  private readonly bytes: Buffer;
  /** Where the keys of the objects that are being read start and end; what is beyond `keyCount` is over. */
  private readonly keys: number[] = [];
  private keyCount = 0;
  /** Bytes that may still be looked at twice. */
  private patience: number;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
    this.patience = bytes.length + 4_096;
  }

  /** Whether the object at this place is one, nested at most this many levels deep. */
  isObject(at: number, levels: number): boolean {
    this.end = at;
    this.keyCount = 0;
    return this.object(levels);
  }

  private value(levels: number): boolean {
    const byte = this.bytes[this.end] as number;
    if (byte === QUOTE) return this.string();
    if (byte === OPEN_BRACE) return levels > 0 && this.object(levels);
    if (byte === OPEN_BRACKET) return levels > 0 && this.array(levels);
    return byte === MINUS || (byte >= ZERO && byte <= NINE) ? this.number() : this.literal(LITERALS.get(byte));
  }

  private object(levels: number): boolean {
    const { bytes } = this;
    if (bytes[this.end + 1] === CLOSE_BRACE) {
      this.end += 2;
      return true;
    }
    const first = this.keyCount;
    do {
      const start = this.end + 2;
      // Keys that are numbers change their places.
      if (bytes[this.end + 1] !== QUOTE || isDigit(bytes[start])) return false;
      let at = start;
      while (PLAIN[bytes[at] as number] === 1) at += 1;
      if (bytes[at] !== QUOTE || bytes[at + 1] !== COLON || !this.isNew(first, start, at)) return false;
      this.end = at + 2;
      if (!this.value(levels - 1)) return false;
    } while (bytes[this.end] === COMMA);
    this.keyCount = first;
    return bytes[this.end++] === CLOSE_BRACE;
  }

  private array(levels: number): boolean {
    const { bytes } = this;
    if (bytes[this.end + 1] === CLOSE_BRACKET) {
      this.end += 2;
      return true;
    }
    do {
      this.end += 1;
      if (!this.value(levels - 1)) return false;
    } while (bytes[this.end] === COMMA);
    return bytes[this.end++] === CLOSE_BRACKET;
  }

  private string(): boolean {
    const { bytes } = this;
    const start = this.end;
    let isCertain = true;
    for (let at = start + 1; ; at += 1) {
      while (PLAIN[bytes[at] as number] === 1) at += 1;
      if (bytes[at] !== BACKSLASH) {
        if (bytes[at] !== QUOTE) return false;
        this.end = at + 1;
        break;
      }
      at += 1;
      if (bytes[at] === LETTER_U) isCertain = false;
      else if (!SHORT_ESCAPES.has(bytes[at] as number)) return false;
    }
    return isCertain || this.isRepeated(start, this.end);
  }

  private number(): boolean {
    const { bytes } = this;
    const start = this.end;
    let at = start;
    if (bytes[at] === MINUS) at += 1;
    const whole = at;
    while (isDigit(bytes[at])) at += 1;
    const digits = at - whole;
    let isCertain =
      digits > 0 &&
      (bytes[whole] !== ZERO || digits === 1) &&
      (bytes[at] === DOT || bytes[start] !== MINUS || bytes[whole] !== ZERO);
    let fraction = 0;
    if (bytes[at] === DOT) {
      const point = at;
      at += 1;
      while (isDigit(bytes[at])) at += 1;
      fraction = at - point - 1;
      isCertain &&= fraction > 0 && bytes[at - 1] !== ZERO && !this.isTiny(whole, point, at);
    }
    if (digits + fraction > SAFE_DIGITS) isCertain = false;
    while (isOfNumber(bytes[at])) {
      isCertain = false;
      at += 1;
    }
    this.end = at;
    return isCertain || this.isRepeated(start, at);
  }

  /** Whether it may be written with an exponent. */
  private isTiny(whole: number, point: number, end: number): boolean {
    if (this.bytes[whole] !== ZERO) return false;
    let at = point + 1;
    while (at < end && this.bytes[at] === ZERO) at += 1;
    return at - point - 1 > MAX_ZEROS;
  }

  private literal(word: Uint8Array | undefined): boolean {
    if (word === undefined) return false;
    for (const byte of word) if (this.bytes[this.end++] !== byte) return false;
    return true;
  }

  private isRepeated(start: number, end: number): boolean {
    this.patience -= end - start + SECOND_LOOK;
    if (this.patience < 0) return false;
    const text = this.bytes.toString('utf8', start, end);
    try {
      return JSON.stringify(JSON.parse(text)) === text;
    } catch {
      return false;
    }
  }

  /** Notes a key of the object whose keys are those from `first` on; false when it is there, or a trap. */
  private isNew(first: number, start: number, end: number): boolean {
    const { keys, bytes, keyCount: length } = this;
    if (length - first >= 2 * MAX_KEYS) return false;
    if (end - start === 9 && bytes[start] === UNDERSCORE && bytes.toString('latin1', start, end) === '__proto__')
      return false;
    for (let index = first; index < length; index += 2) {
      const other = keys[index] as number;
      if ((keys[index + 1] as number) - other === end - start && this.isSame(other, start, end - start)) return false;
    }
    keys[length] = start;
    keys[length + 1] = end;
    this.keyCount = length + 2;
    return true;
  }

  /** Also where there is no patience left to find out. */
  private isSame(a: number, b: number, length: number): boolean {
    const { bytes } = this;
    if (bytes[a] !== bytes[b] || bytes[a + length - 1] !== bytes[b + length - 1]) return false;
    this.patience -= length;
    if (this.patience < 0) return true;
    for (let index = 0; index < length; index += 1) if (bytes[a + index] !== bytes[b + index]) return false;
    return true;
  }
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= NINE;
}

function isOfNumber(byte: number | undefined): boolean {
  return isDigit(byte) || byte === DOT || byte === PLUS || byte === MINUS || byte === 0x45 || byte === 0x65;
}

function bytesOf(text: string): ReadonlySet<number> {
  return new Set(Buffer.from(text));
}
