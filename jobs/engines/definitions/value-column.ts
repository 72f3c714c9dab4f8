import type { Value } from '../../../src/definition/definition.ts';
import type { TraitColumn } from '../port.ts';

const NUMBERS: ReadonlySet<Value['operator']> = new Set(['count', 'sum', 'average', 'min', 'max', 'uniqueCount']);

/** What the values of a short definition are. The others are what was sent in events: text, numbers and booleans. */
export function valueColumn(key: string, { operator }: Value): TraitColumn {
  return { key, type: NUMBERS.has(operator) ? 'number' : 'scalar', isList: operator === 'uniqueList' };
}
