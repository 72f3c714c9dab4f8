/**
 * Arrays in Postgres's binary format: one parameter carries a column of hundreds of rows, and neither side escapes and
 * parses text for it (node-postgres sends a Buffer as it is).
 */

const HEADER = 20;
const NULL_LENGTH = -1;

type Encode<T> = (target: Buffer, at: number, value: T) => void;

function fixed<T>(oid: number, width: number, encode: Encode<T>) {
  return (values: readonly (T | null)[]): Buffer => {
    const nulls = values.reduce<number>((count, value) => (value === null ? count + 1 : count), 0);
    const target = start(oid, values.length, (values.length - nulls) * width, nulls > 0);
    let at = HEADER;
    for (const value of values) {
      at = target.writeInt32BE(value === null ? NULL_LENGTH : width, at);
      if (value === null) continue;
      encode(target, at, value);
      at += width;
    }
    return target;
  };
}

function start(oid: number, count: number, bytes: number, hasNull: boolean): Buffer {
  const target = Buffer.allocUnsafe(HEADER + count * 4 + bytes);
  target.writeInt32BE(1, 0);
  target.writeInt32BE(hasNull ? 1 : 0, 4);
  target.writeInt32BE(oid, 8);
  target.writeInt32BE(count, 12);
  target.writeInt32BE(1, 16);
  return target;
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

export function text(values: readonly (string | null)[]): Buffer {
  const stored = values.map((value) => (value === null ? null : storable(value)));
  const lengths = stored.map((value) => (value === null ? NULL_LENGTH : Buffer.byteLength(value)));
  const bytes = lengths.reduce((sum, length) => sum + Math.max(0, length), 0);
  const target = start(25, values.length, bytes, lengths.includes(NULL_LENGTH));
  let at = HEADER;
  for (const [index, value] of stored.entries()) {
    at = target.writeInt32BE(lengths[index] ?? NULL_LENGTH, at);
    if (value !== null) at += target.write(value, at);
  }
  return target;
}

/**
 * A query that makes rows of array parameters, numbered from `first`; types by column name. Each `unnest` of a FROM clause
 * would first write its column to a store of its own.
 */
export function columns(first: number, types: Readonly<Record<string, string>>): string {
  const each = Object.entries(types).map(([name, type], index) => `unnest($${first + index}::${type}[]) AS ${name}`);
  return `SELECT ${each.join(', ')}`;
}

/** 32 bytes each. */
export const hash = fixed<Buffer>(17, 32, (target, at, value) => value.copy(target, at));

/** Postgres's text takes everything but U+0000, for which its picture stands. JSON, such as a body, never holds it. */
export function storable(value: string): string {
  return value.includes('\0') ? value.replaceAll('\0', '\u2400') : value;
}
