import { INSTANT } from '../../../src/definition/operators.ts';
import type { KeyPath } from '../../../src/definition/places.ts';
import { literal } from '../sql/plan-query.ts';
import type { DefinitionDialect } from './dialect.ts';

const NUMBERS = "('BIGINT', 'UBIGINT', 'DOUBLE')";

/** DuckDB keeps JSON as text. */
export const duckdbDefinitions: DefinitionDialect = {
  view: (name) => `rollcall_${name}`,
  json: (text) => text,
  at: (json, path) => at(json, path),
  isText: (value) => `json_type(${value}) = 'VARCHAR'`,
  isNumber: (value) => `json_type(${value}) IN ${NUMBERS}`,
  isList: (value) => `json_type(${value}) = 'ARRAY'`,
  isBoolean: (value) => `json_type(${value}) = 'BOOLEAN'`,
  isScalar: (value) => `json_type(${value}) IN ('VARCHAR', 'BOOLEAN', 'BIGINT', 'UBIGINT', 'DOUBLE')`,
  exists: (value) => `json_type(${value}) <> 'NULL'`,
  hasItem: (list, condition) =>
    `len(list_filter(json_extract(${list}, '$[*]'), lambda item: ${condition('item')})) > 0`,
  text: (value) => `json_extract_string(${value}, '$')`,
  number,
  numberLiteral,
  instant,
  millis: (timestamp) => `CAST(epoch_ms(${timestamp}) AS bigint)`,
  keys: (json) => `unnest(json_keys(${json}))`,
  bucket: (text) => `CAST('0x' || substr(sha256(${text}), 1, 16) AS ubigint) % 10000`,
  totals,
  average: (total, times) => `${total} / ${times}`,
  list: (value, order) => `list(${value} ORDER BY ${order})`,
  binary: '',
};

/** Adds whole numbers of each exponent, then all of a person shifted to the least exponent. */
function totals(rows: string): string {
  const split = `SELECT user_id, string_split(CAST(amount AS varchar), 'e') AS parts FROM (${rows}) AS amounts`;
  const mantissa = `SELECT user_id, parts, string_split(parts[1], '.') AS digits FROM (${split}) AS split`;
  const decimals = `SELECT user_id, CAST(digits[1] || coalesce(digits[2], '') AS hugeint) AS digits,
      coalesce(CAST(parts[2] AS integer), 0) - length(coalesce(digits[2], '')) AS exponent FROM (${mantissa}) AS mantissas`;
  const sums = `SELECT user_id, exponent, sum(digits) AS digits, count(*) AS times,
      min(exponent) OVER (PARTITION BY user_id) AS least FROM (${decimals}) AS decimals GROUP BY user_id, exponent`;
  const shifted = `CAST(CAST(digits AS varchar) || repeat('0', exponent - least) AS bignum)`;
  return `SELECT user_id, CAST(CAST(sum(${shifted}) AS varchar) || 'e' || any_value(least) AS double) AS total,
      CAST(sum(times) AS bigint) AS times FROM (${sums}) AS sums GROUP BY user_id`;
}

/** Without digits of a fraction beyond milliseconds, which would be rounded. */
function instant(text: string): string {
  const written = `regexp_replace(replace(upper(${text}), ',', '.'), '(\\.[0-9]{3})[0-9]+', '\\1')`;
  // DuckDB reads offsets with a colon.
  const colon = `regexp_replace(${written}, '([+-][0-9]{2})([0-9]{2})$', '\\1:\\2')`;
  const readable = `CASE WHEN length(${text}) > 10 THEN ${colon} ELSE ${text} END`;
  return `CASE WHEN regexp_full_match(${text}, '${INSTANT}') THEN try_cast(${readable} AS timestamp) END`;
}

function number(value: string): string {
  return `CASE WHEN json_type(${value}) IN ${NUMBERS} THEN CAST(${value} AS double) END`;
}

function numberLiteral(value: number): string {
  return `CAST('${value}' AS double)`;
}

/** Uses JSON pointers, which can have any key. Unlike our paths they index list items too, so lists are excluded. */
function at(json: string, path: KeyPath): string {
  const place = path.findIndex((key) => /^\d+$/.test(key));
  if (place < 0) return `json_extract(${json}, ${pointer(path)})`;
  const owner = place === 0 ? json : `json_extract(${json}, ${pointer(path.slice(0, place))})`;
  const value = `json_extract(${owner}, ${pointer(path.slice(place, place + 1))})`;
  const guarded = `CASE WHEN json_type(${owner}) = 'OBJECT' THEN ${value} END`;
  const rest = path.slice(place + 1);
  return rest.length === 0 ? guarded : at(guarded, rest);
}

function pointer(path: KeyPath): string {
  return literal(path.map((key) => `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`).join(''));
}
