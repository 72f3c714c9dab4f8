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
  sum: (value) => `sum(${value})`,
  list: (value, order) => `array_agg(${value} ORDER BY ${order})`,
  binary: ' COLLATE "C"',
};

function jsonLiteral(value: Scalar | readonly Scalar[]): string {
  return `CAST(${literal(JSON.stringify(value))} AS jsonb)`;
}
