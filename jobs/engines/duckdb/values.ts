import { orderedJson, type TextFunctions } from '../sql/ordered-json.ts';
import { type Column, DOUBLE_LIMIT, literal, name, type ValueType } from '../sql/plan-query.ts';

/** Types that have no form in JSON that a receiver would expect. */
const UNTELLABLE = /^(BLOB|BIT|BIGNUM|GEOMETRY)\b/;
/** DuckDB writes all fields of a row() under the same name ''. */
const NAMELESS = /\bSTRUCT\("" /;
/** Types that DuckDB writes as we want them. */
const PLAIN = /^(VARCHAR|BOOLEAN|U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|UINTEGER|DECIMAL|ENUM)\b/;

/** A value as an argument of `json_object`; null if JSON has no form for its type. */
export function toldValue(value: string, type: ValueType, depth = 0): string | null {
  const { items, entries, fields } = type;
  if (items) return eachOf(value, (item) => toldValue(item, items, depth + 1), depth);
  if (entries) {
    const pairs = eachOf(
      `map_entries(${value})`,
      (entry) => {
        const told = toldValue(`${entry}.value`, entries, depth + 1);
        return told && `struct_pack(k := ${entry}.key, v := ${told})`;
      },
      depth,
    );
    return pairs && `map_from_entries(${pairs})`;
  }
  if (fields) return toldStruct(value, fields, depth);
  return toldScalar(value, type.type);
}

/** A struct as an object, and a tuple, whose fields have no names, as a list. */
function toldStruct(value: string, fields: readonly Column[], depth: number): string | null {
  const isTuple = fields.some((field) => field.name === '');
  const told = fields.map((field, index) => {
    const part = isTuple ? `struct_extract_at(${value}, ${index + 1})` : `${value}.${name(field.name)}`;
    return toldValue(part, field, depth + 1);
  });
  if (told.includes(null)) return null;
  const packed = fields.map((field, index) => `${name(field.name)} := ${told[index]}`).join(', ');
  const whole = isTuple ? `json_array(${told.join(', ')})` : `struct_pack(${packed})`;
  return `CASE WHEN ${value} IS NOT NULL THEN ${whole} END`;
}

function eachOf(list: string, told: (item: string) => string | null, depth: number): string | null {
  const item = `item${depth}`;
  const value = told(item);
  return value === null || value === item ? value && list : `list_transform(${list}, lambda ${item}: ${value})`;
}

function toldScalar(value: string, type: string): string | null {
  if (UNTELLABLE.test(type) || NAMELESS.test(type)) return null;
  if (PLAIN.test(type)) return value;
  // 15 and 7 significant digits: a parallel sum that adds in another order is not a change.
  if (type === 'DOUBLE')
    return `CASE WHEN abs(${value}) < ${DOUBLE_LIMIT} THEN CAST(format('{:.15g}', ${value}) AS JSON) END`;
  if (type === 'FLOAT') return ifFinite(value, `CAST(format('{:.7g}', ${value}) AS JSON)`);
  if (type === 'DATE') return ifTellable(value, type, value);
  if (type.startsWith('TIMESTAMP')) {
    const time = `CAST(${value} AS TIMESTAMP)`;
    return ifTellable(time, 'TIMESTAMP', `strftime(${time}, '%Y-%m-%dT%H:%M:%S.%gZ')`);
  }
  if (/^(TIME|INTERVAL|UUID)\b/.test(type)) return `CAST(${value} AS varchar)`;
  return `CAST(${finiteJson(`CAST(to_json(${value}) AS varchar)`)} AS JSON)`;
}

const ifFinite = (value: string, told: string) => `CASE WHEN isfinite(${value}) THEN ${told} END`;

/** Other years have no form of four digits. */
const ifTellable = (time: string, type: string, told: string) =>
  ifFinite(time, `CASE WHEN ${time} >= ${type} '0001-01-01' AND ${time} < ${type} '10000-01-01' THEN ${told} END`);

const STRINGS_AND_REST = literal('"(?:[^"\\\\]|\\\\.)*"|[^"]+');

/** Replaces NaN and infinity, which DuckDB writes as JSON, by null, but not within strings. */
function finiteJson(text: string): string {
  const finite = outsideStrings(text, (part) => `regexp_replace(${part}, '-?(nan|infinity|inf)', 'null', 'gi')`);
  return `CASE WHEN regexp_matches(${text}, '(?i)nan|inf') THEN ${finite} ELSE ${text} END`;
}

const FUNCTIONS: TextFunctions = {
  matches: (text, pattern) => `regexp_extract_all(${text}, ${literal(pattern)})`,
  map: (list, change) => `list_transform(${list}, lambda part: ${change('part')})`,
  sort: (list) => `list_sort(${list})`,
  // array_to_string is a macro that computes its list twice.
  join: (list, by) => `coalesce(list_aggregate(${list}, 'string_agg', '${by}'), '')`,
  md5: (text) => `md5(${text})`,
};

/** True if two JSON texts differ only in the order of keys and in zeros. Only texts of the same length may. */
export function isSame(one: string, other: string): string {
  const [a, b] = [shortNumbers(one), shortNumbers(other)];
  return `CASE WHEN ${a} = ${b} THEN TRUE WHEN length(${a}) <> length(${b}) OR NOT contains(${one}, ',') THEN FALSE
    ELSE ${orderedJson(a, FUNCTIONS)} = ${orderedJson(b, FUNCTIONS)} END`;
}

/** JSON text with its numbers as short as they can be: 5 and 5.0 are the same to a receiver. */
function shortNumbers(text: string): string {
  return outsideStrings(text, (part) => {
    const whole = `regexp_replace(${part}, '(\\d)\\.0+([^0-9]|$)', '\\1\\2', 'g')`;
    return `regexp_replace(${whole}, '(\\.\\d*[1-9])0+([^0-9]|$)', '\\1\\2', 'g')`;
  });
}

function outsideStrings(text: string, change: (part: string) => string): string {
  const part = `CASE WHEN starts_with(part, '"') THEN part ELSE ${change('part')} END`;
  return FUNCTIONS.join(`list_transform(regexp_extract_all(${text}, ${STRINGS_AND_REST}), lambda part: ${part})`, '');
}
