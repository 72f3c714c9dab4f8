import { latestKnown } from '../freshness.ts';
import { columnsByUse, untellable, valueKeys } from '../plan/columns.ts';
import type { Definition, TraitColumn } from '../port.ts';
import { type Column, freshAudience, freshValues, idText, newestValue, type SqlDialect } from './plan-query.ts';

/** The rows of a definition, once its columns are known. */
export interface Described {
  /** A query of (id), ids as they are, and their values if there are any. */
  readonly fresh: string;
  readonly traits: readonly TraitColumn[];
  /** Columns of an audience that nothing names. */
  readonly unnamed?: readonly string[];
  /** A query for the newest value of the `freshness` column; null without one. */
  readonly newest: string | null;
}

/**
 * Checks the columns of a definition's result and makes the query of its normalized rows.
 *
 * @throws RollcallError `column_missing`, `column_type`
 */
export function describe(
  definition: Definition,
  statement: string,
  columns: readonly Column[],
  dialect: SqlDialect,
): Described {
  const { user, fresh, values, ...unnamed } = columnsByUse(definition, columns, ({ type }) => dialect.isIdType(type));
  const id = idText(user.name, definition.allowPlaceholders ?? false, dialect);
  const newest = fresh === null ? null : newestValue(statement, fresh, latestKnown(definition.asOf));
  const { kind } = definition;
  if (kind === 'audience' && definition.with === undefined) {
    return { fresh: freshAudience(statement, id), traits: [], newest, ...unnamed };
  }
  const keys = valueKeys(definition, values);
  const fields = values.map((column, place) => {
    const value = dialect.traitValue(column);
    if (value === null) throw untellable(column);
    return { key: keys[place] ?? column.name, value, ...dialect.jsonType(column) };
  });
  return {
    fresh: freshValues(statement, id, fields, kind, dialect),
    traits: fields.map(({ key, type, isList }) => ({ key, type, isList })),
    newest,
    ...unnamed,
  };
}
