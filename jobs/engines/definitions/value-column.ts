import type { TraitValue } from '../../../src/definition/definition.ts';
import type { TraitColumn } from '../port.ts';
import type { ValueType } from '../sql/plan-query.ts';

const NUMBERS: ReadonlySet<TraitValue['operator']> = new Set(['count', 'sum', 'average', 'min', 'max', 'uniqueCount']);

/** The column type of a short definition's values. Values from events are text, numbers and booleans. */
export function valueColumn(key: string, { operator }: TraitValue): TraitColumn {
  return { key, type: NUMBERS.has(operator) ? 'number' : 'scalar', isList: operator === 'uniqueList' };
}

const TYPES = {
  duckdb: { count: 'BIGINT', number: 'DOUBLE', scalar: 'JSON' },
  postgres: { count: 'bigint', number: 'double precision', scalar: 'jsonb' },
} as const;

/** The type that SQL gives a short definition's values. */
export function valueType(value: TraitValue, dialect: keyof typeof TYPES): ValueType {
  const { type, isList } = valueColumn('', value);
  const isCount = value.operator === 'count' || value.operator === 'uniqueCount';
  const item = TYPES[dialect][isCount ? 'count' : type === 'number' ? 'number' : 'scalar'];
  return isList ? { type: `${item}[]`, items: { type: item } } : { type: item };
}
