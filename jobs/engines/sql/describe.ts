import { createHash } from 'node:crypto';
import { latestKnown } from '../freshness.ts';
import { columnsByUse, untellable, valueKeys } from '../plan/columns.ts';
import type { Definition, TraitColumn } from '../port.ts';
import {
  type Column,
  type Fresh,
  freshAudience,
  freshValues,
  hasValues,
  idText,
  jsonOf,
  name,
  newestValue,
  type SqlDialect,
} from './plan-query.ts';

/** The rows of a definition, once its columns are known. */
export interface Described {
  readonly fresh: Fresh;
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
  if (kind === 'audience' && !definition.with?.names.length) {
    return { fresh: freshAudience(statement, id, hasValues(definition)), traits: [], newest, ...unnamed };
  }
  const keys = valueKeys(definition, values);
  const fieldsOf = (columns: readonly Column[]) =>
    columns.map((column, place) => {
      const value = dialect.traitValue(column);
      if (value === null) throw untellable(values[place] ?? column);
      return { key: keys[place] ?? column.name, value, ...dialect.jsonType(column) };
    });
  const fields = fieldsOf(values);
  const trait = () => ({
    rows: `SELECT *, ${dialect.hash(['value'], 0)} AS hash FROM (${freshValues(statement, id, fields, dialect)}) AS trait`,
    columns: ['value'],
    value: 'value',
    mayRepeat: true,
  });
  /** The same columns under other names, or of other types, have another hash. */
  const columnsAsTheyAre = () => {
    const carried = values.map((column, place) => ({ ...column, name: `column${place}` }));
    const value = jsonOf(fieldsOf(carried), dialect);
    const seed = createHash('sha256')
      .update(JSON.stringify([carried, value]))
      .digest()
      .readUIntBE(0, 6);
    const hash = dialect.hash(
      fields.map((field) => field.value),
      seed,
    );
    const named = values.map((column, place) => `${name(column.name)} AS ${carried[place]?.name}`);
    return {
      rows: `SELECT ${id} AS id, ${hash} AS hash, ${named.join(', ')} FROM (\n${statement}\n) AS definition`,
      columns: carried.map((column) => column.name),
      value,
      mayRepeat: false,
    };
  };
  return {
    fresh: kind === 'trait' ? trait() : columnsAsTheyAre(),
    traits: fields.map(({ key, type, isList }) => ({ key, type, isList })),
    newest,
    ...unnamed,
  };
}
