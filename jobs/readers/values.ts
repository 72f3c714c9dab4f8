import type { ReadColumn, ValueKind, ValueList } from './port.ts';

/** Kinds of columns that have ids. In a column without a type, each value is judged. */
export const ID_KINDS: ReadonlySet<ValueKind> = new Set(['text', 'integer', 'any']);

/** One text is handed on at a fraction of the cost of its parts. */
export const packed = (values: ValueList): ValueList =>
  // `includes` takes three times as long for a short text.
  typeof values !== 'string' && values.every((value) => typeof value === 'string' && value.indexOf('\n') < 0)
    ? values.join('\n')
    : values;

type Encode = (value: NonNullable<unknown>) => string | null;

/** The text of an id; null if no id can be made of the value. */
export function idTextOf({ kind }: ReadColumn): Encode {
  return (value) => {
    // No other database accepts a NUL in text.
    if (typeof value === 'string') return value.includes('\0') ? null : value;
    // A database without types for columns gives whole numbers as bigints, and floating ones as numbers.
    const isWhole = typeof value === 'bigint' || (kind === 'integer' && Number.isSafeInteger(value));
    return isWhole ? String(value) : null;
  };
}

/** JSON text of values, by their kind; null if JSON has no form for a value. */
const JSON_OF: Readonly<Record<ValueKind, Encode>> = {
  text: (value) => JSON.stringify(String(value)),
  integer: numberOf,
  decimal: numberOf,
  double: (value) => floatOf(value, 15),
  real: (value) => floatOf(value, 7),
  boolean: (value) => (/^(true|t|1)$/.test(String(value)) ? 'true' : 'false'),
  date: (value) => quoted(dateOf(value)),
  timestamp: (value) => quoted(momentOf(value)),
  json: jsonOf,
  binary: () => null,
  any: anyOf,
};

export function jsonTextOf({ kind }: Pick<ReadColumn, 'kind'>): Encode {
  return JSON_OF[kind];
}

/** The text of a `freshness` column's value, as engines cast it to a timestamp; null if it says nothing. */
export function timeTextOf({ kind }: ReadColumn): Encode {
  if (kind === 'date') return dateOf;
  if (kind === 'timestamp') return momentOf;
  return (value) => {
    if (value instanceof Date) return momentOf(value);
    const text = String(value);
    return kind === 'json' && text.startsWith('"') ? String(JSON.parse(text)) : text;
  };
}

/** The types of a trait's values in JSON. */
export function jsonTypeOf({ kind, json }: Pick<ReadColumn, 'kind' | 'json'>) {
  if (json) return json;
  if (kind === 'any' || kind === 'json' || kind === 'binary') return { type: 'unknown', isList: false } as const;
  if (kind === 'boolean') return { type: 'boolean', isList: false } as const;
  const isText = kind === 'text' || kind === 'date' || kind === 'timestamp';
  return { type: isText ? 'string' : 'number', isList: false } as const;
}

const quoted = (text: string | null) => (text === null ? null : `"${text}"`);

const WHOLE = /^-?(0|[1-9]\d{0,300})(\.\d+)?$/;

/** The digits as they are, unless JSON would read them as infinity. */
function numberOf(value: NonNullable<unknown>): string | null {
  const text = String(value);
  if (WHOLE.test(text)) return text;
  const number = text.trim() === '' ? Number.NaN : Number(text);
  return Number.isFinite(number) ? String(number) : null;
}

/** A parallel sum that adds in another order is not a change. */
function floatOf(value: NonNullable<unknown>, digits: number): string | null {
  const number = Number(value);
  if (!Number.isFinite(number)) return null;
  const rounded = Number(number.toPrecision(digits));
  return Number.isFinite(rounded) ? String(rounded) : null;
}

const DATE = /^(?!0000)\d{4}-(?!00)\d\d-(?!00)\d\d/;

/** Other years have no form of four digits, and some databases have days that are none. */
function dateOf(value: NonNullable<unknown>): string | null {
  const text = value instanceof Date ? momentOf(value) : String(value);
  return text !== null && DATE.test(text) ? text.slice(0, 10) : null;
}

const MOMENT = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d+))?(?:Z|\+00(?::?00)?)?$/;

function momentOf(value: NonNullable<unknown>): string | null {
  const text = value instanceof Date ? (Number.isNaN(value.getTime()) ? '' : value.toISOString()) : String(value);
  const [, date = '', time, fraction = ''] = MOMENT.exec(text) ?? [];
  return DATE.test(date) ? `${date}T${time}.${fraction.slice(0, 3).padEnd(3, '0')}Z` : null;
}

/** Numbers that JSON readers may take for infinity. */
const HUGE = /[eE]\+?\d{3}|\d{300}/;

function jsonOf(value: NonNullable<unknown>): string | null {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const safe = HUGE.test(text) ? JSON.stringify(JSON.parse(text)) : text;
  return safe === 'null' ? null : safe;
}

function anyOf(value: NonNullable<unknown>): string | null {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value);
    case 'number':
      return floatOf(value, 15);
    case 'bigint':
      return String(value);
    case 'boolean':
      return String(value);
    default:
      if (value instanceof Date) return quoted(momentOf(value));
      return ArrayBuffer.isView(value) ? null : (JSON.stringify(value) ?? null);
  }
}
