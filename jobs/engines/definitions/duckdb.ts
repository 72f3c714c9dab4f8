import type { KeyPath } from '../../../src/definition/definition.ts';
import type { Scalar } from '../../../src/definition/operators.ts';
import { literal } from '../sql/plan-query.ts';
import type { DefinitionDialect } from './dialect.ts';

const NUMBERS = "('BIGINT', 'UBIGINT', 'DOUBLE')";

/** DuckDB keeps JSON as text. */
export const duckdbDefinitions: DefinitionDialect = {
  view: (name) => `rollcall_${name}`,
  at: (json, path) => at(json, path),
  isText: (value) => `json_type(${value}) = 'VARCHAR'`,
  isNumber: (value) => `json_type(${value}) IN ${NUMBERS}`,
  isList: (value) => `json_type(${value}) = 'ARRAY'`,
  isScalar: (value) => `json_type(${value}) IN ('VARCHAR', 'BOOLEAN', 'BIGINT', 'UBIGINT', 'DOUBLE')`,
  exists: (value) => `json_type(${value}) <> 'NULL'`,
  equals,
  hasItem: (list, operand) =>
    `len(list_filter(json_extract(${list}, '$[*]'), lambda item: ${equals('item', operand)})) > 0`,
  text: (value) => `json_extract_string(${value}, '$')`,
  number,
  numberLiteral,
  sum: (value) => `fsum(${value})`,
  list: (value, order) => `list(${value} ORDER BY ${order})`,
  binary: '',
};

function equals(value: string, operand: Scalar): string {
  if (typeof operand === 'string') {
    return `(json_type(${value}) = 'VARCHAR' AND json_extract_string(${value}, '$') = ${literal(operand)})`;
  }
  if (typeof operand === 'number') return `${number(value)} = ${numberLiteral(operand)}`;
  return `(json_type(${value}) = 'BOOLEAN' AND json_extract_string(${value}, '$') = '${operand}')`;
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
