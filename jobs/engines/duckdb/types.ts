import type { ValueType } from '../sql/plan-query.ts';

/** A type as `@duckdb/node-api` describes it. */
export interface DuckdbType {
  readonly alias?: string | undefined;
  /** Type of the items of a list or array, or of the values of a map. */
  readonly valueType?: DuckdbType;
  readonly keyType?: DuckdbType;
  /** Fields of a struct. */
  readonly entryNames?: readonly string[];
  readonly entryTypes?: readonly DuckdbType[];
  toString(): string;
}

export function duckdbType(given: DuckdbType): ValueType {
  const type = given.alias ?? String(given);
  const { valueType, keyType, entryNames, entryTypes } = given;
  if (valueType) return { type, [keyType ? 'entries' : 'items']: duckdbType(valueType) };
  if (!entryNames || !entryTypes) return { type };
  return { type, fields: entryTypes.map((entry, index) => ({ name: entryNames[index] ?? '', ...duckdbType(entry) })) };
}
