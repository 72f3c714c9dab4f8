/**
 * Arrays in Postgres's binary format. One parameter carries a column of hundreds of rows, and neither side escapes or
 * parses text for it: node-postgres sends a Buffer as it is.
 */

const HEADER = 20;
/** Offset of the header's flag for nulls. */
const HAS_NULL = 4;
const NULL_LENGTH = -1;

type Encode<T> = (target: Buffer, at: number, value: T) => void;

/** Makes a column of values, or of the result of `of` for each row, without an array in between. */
interface MakeColumn<T> {
  (values: readonly (T | null)[]): Buffer;
  <R>(rows: readonly R[], of: (row: R) => T | null): Buffer;
}

/** Let `of` default to the row itself. */
function column<T>(make: <R>(rows: readonly R[], of: (row: R) => T | null) => Buffer): MakeColumn<T> {
  return <R>(rows: readonly R[], of = (row: R) => row as T | null) => make(rows, of);
}

function fixed<T>(oid: number, width: number, encode: Encode<T>): MakeColumn<T> {
  return column((rows, of) => {
    const target = start(oid, rows.length, rows.length * width);
    let at = HEADER;
    for (const row of rows) {
      const value = of(row);
      if (value === null) at = writeNull(target, at);
      else {
        at = target.writeInt32BE(width, at);
        encode(target, at, value);
        at += width;
      }
    }
    return target.subarray(0, at);
  });
}

function start(oid: number, count: number, bytes: number): Buffer {
  const target = Buffer.allocUnsafe(HEADER + count * 4 + bytes);
  target.writeInt32BE(1, 0);
  target.writeInt32BE(0, HAS_NULL);
  target.writeInt32BE(oid, 8);
  target.writeInt32BE(count, 12);
  target.writeInt32BE(1, 16);
  return target;
}

function writeNull(target: Buffer, at: number): number {
  target.writeInt32BE(1, HAS_NULL);
  return target.writeInt32BE(NULL_LENGTH, at);
}

export const int2 = fixed<number>(21, 2, (target, at, value) => target.writeInt16BE(value, at));
export const int4 = fixed<number>(23, 4, (target, at, value) => target.writeInt32BE(value, at));
export const int8 = fixed<number>(20, 8, (target, at, value) => {
  target.writeInt32BE(Math.floor(value / 2 ** 32), at);
  target.writeUInt32BE(value >>> 0, at + 4);
});
export const bool = fixed<boolean>(16, 1, (target, at, value) => target.writeUInt8(value ? 1 : 0, at));
/** 32 hexadecimal digits each. */
export const uuid = fixed<string>(2950, 16, (target, at, value) => target.write(value, at, 'hex'));

/** Below this length, writing character by character costs less than a call that leaves JavaScript. */
const SHORT = 24;
/** Spare bytes that reveal a string that is not ASCII: it takes more bytes than it has characters. */
const SLACK = 4;

/** Nearly all columns are ASCII: measure their strings without encoding them, and read each once. */
export const text = column<string>((rows, of) => asciiText(rows, of) ?? anyText(rows, of));

/** Return null if a string is not ASCII, or can't be stored as it is. */
function asciiText<R>(rows: readonly R[], of: (row: R) => string | null): Buffer | null {
  let characters = 0;
  for (const row of rows) characters += of(row)?.length ?? 0;
  const target = start(25, rows.length, characters + SLACK);
  let at = HEADER;
  for (const row of rows) {
    const value = of(row);
    if (value === null) at = writeNull(target, at);
    else {
      at = target.writeInt32BE(value.length, at);
      if (!writeAscii(target, at, value)) return null;
      at += value.length;
    }
  }
  return target.subarray(0, at);
}

function writeAscii(target: Buffer, at: number, value: string): boolean {
  if (value.length >= SHORT) return !value.includes('\0') && target.write(value, at) === value.length;
  for (let index = 0; index < value.length; index += 1) {
    const code = value.charCodeAt(index);
    if (code === 0 || code > 127) return false;
    target[at + index] = code;
  }
  return true;
}

function anyText<R>(rows: readonly R[], of: (row: R) => string | null): Buffer {
  let bytes = 0;
  for (const row of rows) bytes += Buffer.byteLength(storable(of(row) ?? ''));
  const target = start(25, rows.length, bytes);
  let at = HEADER;
  for (const row of rows) {
    const value = of(row);
    if (value === null) at = writeNull(target, at);
    else {
      const length = target.write(storable(value), at + 4);
      at = target.writeInt32BE(length, at) + length;
    }
  }
  return target;
}

/**
 * Return a query that makes rows of array parameters, numbered from `first`; types by column name. An `unnest` per
 * column in FROM would write each column to a tuplestore first.
 */
export function columns(first: number, types: Readonly<Record<string, string>>): string {
  const each = Object.entries(types).map(([name, type], index) => `unnest($${first + index}::${type}[]) AS ${name}`);
  return `SELECT ${each.join(', ')}`;
}

export const hash = fixed<Buffer>(17, 32, (target, at, value) => value.copy(target, at));

/** Replace U+0000, which Postgres's text can't hold, by its picture. JSON, such as a body, never has it. */
export function storable(value: string): string {
  return value.includes('\0') ? value.replaceAll('\0', '\u2400') : value;
}
