import { RollcallError } from '../../../src/kernel/errors.ts';
import { MAX_ID_BYTES } from '../../../src/message-types.ts';
import type { TraitColumn } from '../port.ts';
import { orderedJson, type TextFunctions } from '../sql/ordered-json.ts';
import { whiteSpace } from '../sql/plan-query.ts';

/** Quotes a string; a backslash escapes here. */
export function literal(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

export function name(text: string): string {
  return `\`${text.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}

export function literals(texts: readonly string[]): string {
  return `(${texts.map(literal).join(', ')})`;
}

/** A UTC `DateTime64(3)`, which is comparable with all dates and times. */
export function moment(at: number): string {
  return `toDateTime64('${new Date(at).toISOString().replace('T', ' ').replace('Z', '')}', 3, 'UTC')`;
}

const FUNCTIONS: TextFunctions = {
  matches: (text, pattern) => `extractAll(${text}, ${literal(pattern)})`,
  map: (list, change) => `arrayMap(part -> ${change('part')}, ${list})`,
  sort: (list) => `arraySort(${list})`,
  join: (list, by) => `arrayStringConcat(${list}, '${by}')`,
  md5: (text) => `hex(MD5(${text}))`,
};

/** True if two JSON texts differ only in the order of keys. */
export function isReordered(one: string, other: string): string {
  const ordered = (text: string) => orderedJson(`assumeNotNull(${text})`, FUNCTIONS);
  return `(length(${one}) = length(${other}) AND position(${one}, ',') > 0 AND ${ordered(one)} = ${ordered(other)})`;
}

/** A type without wrappers that don't change its values: `Nullable(…)`, `LowCardinality(…)`. */
export function bare(type: string): string {
  const inner = /^(?:Nullable|LowCardinality)\((.*)\)$/s.exec(type)?.[1];
  return inner === undefined ? type : bare(inner);
}

const ID_TYPE = /^(String|FixedString\(\d+\)|U?Int\d+|UUID|Enum\d*\(.*\))$/s;

export const isIdType = (type: string): boolean => ID_TYPE.test(bare(type));

const BLANK = literal(`^[${whiteSpace((code) => `\\x{${code}}`)}]*$`);

/** An id as text; null if it is unusable. */
export function idText(column: string, type: string): string {
  const text = /^FixedString/.test(bare(type)) ? `toStringCutToZero(${column})` : `toString(${column})`;
  const id = `toValidUTF8(${text})`;
  // Only ids that start with a space or beyond ASCII pay for the pattern.
  return `if(length(${id}) > ${MAX_ID_BYTES} OR ((${id} < '!' OR ${id} > '~') AND match(${id}, ${BLANK})), NULL, ${id})`;
}

const WHOLE = /^U?Int\d+$/;
const FLOAT = /^(Float|BFloat)/;
const MOMENT = /^DateTime/;
const TEXT = /^(String|FixedString|UUID|Enum|IPv|Date|Time)/;
const DESCRIBED = /^(Tuple|Nested|JSON|Object|Variant|Dynamic)/;

/**
 * SQL for a value's JSON text, null for null, NaN and infinity. Returns null if JSON has no form for the type.
 */
export function jsonText(value: string, given: string): string | null {
  const type = bare(given);
  if (type === 'Nothing') return 'CAST(NULL AS Nullable(String))';
  if (type === 'Bool') return `if(${value} IS NULL, NULL, if(${value}, 'true', 'false'))`;
  if (WHOLE.test(type) || /^Decimal/.test(type)) return `toString(${value})`;
  // Floats have 15 significant digits, as in other engines.
  if (FLOAT.test(type)) {
    const digits = type === 'Float64' ? `printf('%.15g', ${value})` : `toString(${value})`;
    return `if(isFinite(${value}), ${digits}, NULL)`;
  }
  if (MOMENT.test(type)) {
    return `concat('"', replaceOne(toString(toDateTime64(${value}, 3, 'UTC')), ' ', 'T'), 'Z"')`;
  }
  if (TEXT.test(type)) return `toJSONString(toValidUTF8(toString(${value})))`;
  const item = /^Array\((.*)\)$/s.exec(type)?.[1];
  if (item !== undefined) return listText(value, item);
  const entry = /^Map\((?:LowCardinality\(String\)|\w+), (.*)\)$/s.exec(type)?.[1];
  if (entry !== undefined) return mapText(value, entry);
  return DESCRIBED.test(type) ? `toJSONString(${value})` : null;
}

function listText(value: string, item: string): string | null {
  const variable = `item${item.length}`;
  const text = jsonText(variable, item);
  if (text === null) return null;
  return `concat('[', arrayStringConcat(arrayMap(${variable} -> ifNull(${text}, 'null'), ${value}), ','), ']')`;
}

function mapText(value: string, entry: string): string | null {
  const variable = `entry${entry.length}`;
  const text = jsonText(variable, entry);
  if (text === null) return null;
  const pair = `concat(toJSONString(toString(key)), ':', ifNull(${text}, 'null'))`;
  const pairs = `arrayMap((key, ${variable}) -> ${pair}, mapKeys(${value}), mapValues(${value}))`;
  return `concat('{', arrayStringConcat(${pairs}, ','), '}')`;
}

export function jsonType(given: string): Omit<TraitColumn, 'key'> {
  const type = bare(given);
  const item = /^Array\((.*)\)$/s.exec(type)?.[1];
  if (item !== undefined) return { type: jsonType(item).isList ? 'unknown' : jsonType(item).type, isList: true };
  if (WHOLE.test(type) || FLOAT.test(type) || /^Decimal/.test(type)) return { type: 'number', isList: false };
  if (type === 'Bool') return { type: 'boolean', isList: false };
  return { type: TEXT.test(type) || MOMENT.test(type) ? 'string' : 'unknown', isList: false };
}

/** A whole number from JSON, in which those of 64 bits are text. */
export function whole(value: unknown): number {
  const number = Number(value);
  if (!Number.isSafeInteger(number)) throw new RollcallError('engine_failed', `ClickHouse answered ${String(value)}.`);
  return number;
}
