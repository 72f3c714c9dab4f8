import { INSTANT } from '../../../src/definition/operators.ts';
import { literal } from '../sql/plan-query.ts';
import type { DefinitionDialect } from './dialect.ts';

/** Postgres has `jsonb`: values are equal if type and value are, and its numbers are exact decimals. */
export const postgresDefinitions: DefinitionDialect = {
  view: (name) => `rollcall_events.${name}`,
  json: (text) => `CAST(${text} AS jsonb)`,
  // Text keys find nothing in lists.
  at: (json, path) => `(${[json, ...path.map(literal)].join(' -> ')})`,
  isText: (value) => `jsonb_typeof(${value}) = 'string'`,
  isNumber: (value) => `jsonb_typeof(${value}) = 'number'`,
  isList: (value) => `jsonb_typeof(${value}) = 'array'`,
  isBoolean: (value) => `jsonb_typeof(${value}) = 'boolean'`,
  isScalar: (value) => `jsonb_typeof(${value}) IN ('string', 'number', 'boolean')`,
  exists: (value) => `jsonb_typeof(${value}) <> 'null'`,
  hasItem: (list, condition) =>
    `EXISTS (SELECT 1 FROM jsonb_array_elements(CASE WHEN jsonb_typeof(${list}) = 'array' THEN ${list} END) AS items(item)
      WHERE ${condition('item')})`,
  text: (value) => `(${value} #>> '{}')`,
  number: (value) => `CASE WHEN jsonb_typeof(${value}) = 'number' THEN CAST(${value} #>> '{}' AS numeric) END`,
  numberLiteral: (value) => `CAST('${value}' AS numeric)`,
  instant,
  millis: (timestamp) => `CAST(extract(epoch FROM ${timestamp}) * 1000 AS bigint)`,
  keys: (json) => `jsonb_object_keys(CASE WHEN jsonb_typeof(${json}) = 'object' THEN ${json} ELSE '{}' END)`,
  bucket,
  totals: (rows) => `SELECT user_id, ${double('sum(amount)')} AS total, count(*) AS times
    FROM (${rows}) AS amounts GROUP BY user_id`,
  // A quotient that rounds to 0 raises an error.
  average: (total, times) => {
    const quotient = `${total} / ${times}`;
    const isSomething = `abs(${total}) / 5e-324 * 2 > ${times}`;
    return `CASE WHEN abs(${total}) > 1e-300 THEN ${quotient} WHEN ${isSomething} THEN ${quotient} WHEN ${total} IS NOT NULL THEN 0 END`;
  },
  list: (value, order) => `array_agg(${value} ORDER BY ${order})`,
  binary: ' COLLATE "C"',
};

/** A numeric as a double. Casting one that would round to 0 or to infinity raises an error, for all rows. */
function double(numeric: string): string {
  const isNothing = `abs(${numeric}) < 2.4703282292062328e-324`;
  const fits = `abs(${numeric}) < 1.797693134862315807e308`;
  return `CASE WHEN ${isNothing} THEN 0 WHEN ${fits} THEN CAST(${numeric} AS double precision) END`;
}

/** Days that a month does not have raise an error, so they are looked for first. Digits beyond milliseconds would be rounded. */
function instant(text: string): string {
  const days = `extract(day FROM make_date(CAST(left(said, 4) AS integer), CAST(substr(said, 6, 2) AS integer), 1) + INTERVAL '1 month - 1 day')`;
  const time = `CASE WHEN length(said) = 10 THEN '00:00Z' WHEN substr(said, 11) ~ '[Zz+-]' THEN substr(said, 12) ELSE substr(said, 12) || 'Z' END`;
  const fraction = `regexp_replace(replace(${time}, ',', '.'), '(\\.[0-9]{3})[0-9]+', '\\1')`;
  return `(SELECT CASE WHEN said ~ '${INSTANT}' THEN CASE WHEN CAST(substr(said, 9, 2) AS integer) <= ${days}
    THEN CAST(left(said, 10) || ' ' || ${fraction} AS timestamptz) AT TIME ZONE 'UTC' END END FROM (SELECT ${text} AS said) AS texts)`;
}

/** Takes the 64 bits in halves, since a bigint has one bit less. */
function bucket(text: string): string {
  const half = (from: number) =>
    `CAST(CAST('x' || substr(encode(sha256(convert_to(${text}, 'UTF8')), 'hex'), ${from}, 8) AS bit(32)) AS bigint)`;
  return `((${half(1)} % 10000 * ${2 ** 32 % 10_000} + ${half(9)}) % 10000)`;
}
