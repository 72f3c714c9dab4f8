import type { Scalar } from '../../../src/definition/operators.ts';
import { literal } from '../sql/plan-query.ts';
import type { DefinitionDialect } from './dialect.ts';

/** Postgres has `jsonb`: values are equal if type and value are, and its numbers are exact decimals. */
export const postgresDefinitions: DefinitionDialect = {
  view: (name) => `rollcall_events.${name}`,
  // Text keys find nothing in lists.
  at: (json, path) => `(${[json, ...path.map(literal)].join(' -> ')})`,
  isText: (value) => `jsonb_typeof(${value}) = 'string'`,
  isNumber: (value) => `jsonb_typeof(${value}) = 'number'`,
  isList: (value) => `jsonb_typeof(${value}) = 'array'`,
  isScalar: (value) => `jsonb_typeof(${value}) IN ('string', 'number', 'boolean')`,
  exists: (value) => `jsonb_typeof(${value}) <> 'null'`,
  equals: (value, operand) => `${value} = ${jsonLiteral(operand)}`,
  // The item is wrapped in a list: otherwise `@>` would compare the items of two lists.
  hasItem: (list, operand) => `${list} @> ${jsonLiteral([operand])}`,
  text: (value) => `(${value} #>> '{}')`,
  number: (value) => `CASE WHEN jsonb_typeof(${value}) = 'number' THEN CAST(${value} #>> '{}' AS numeric) END`,
  numberLiteral: (value) => `CAST('${value}' AS numeric)`,
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

function jsonLiteral(value: Scalar | readonly Scalar[]): string {
  return `CAST(${literal(JSON.stringify(value))} AS jsonb)`;
}
