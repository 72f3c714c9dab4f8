import type { TraitValue } from '../../../src/definition/definition.ts';
import type { TraitColumn } from '../port.ts';

const NUMBERS: ReadonlySet<TraitValue['operator']> = new Set(['count', 'sum', 'average', 'min', 'max', 'uniqueCount']);

/** The column type of a short definition's values. Values from events are text, numbers and booleans. */
export function valueColumn(key: string, { operator }: TraitValue): TraitColumn {
  return { key, type: NUMBERS.has(operator) ? 'number' : 'scalar', isList: operator === 'uniqueList' };
}
