import { RollcallError } from '../../../src/kernel/errors.ts';
import { latestKnown } from '../freshness.ts';
import type { Definition, TraitColumn } from '../port.ts';
import { type Column, freshAudience, freshValues, idText, newestValue, type SqlDialect } from './plan-query.ts';

/** The rows of a definition, once its columns are known. */
export interface Described {
  /** A query of (id), ids as they are, for an audience; of (id, value, rows), folded by user, if there are values. */
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
  const userId = columns.find((column) => column.name.toLowerCase() === 'user_id');
  if (!userId) {
    throw new RollcallError(
      'column_missing',
      `The SQL must return a column user_id; it returns ${columns.map((column) => column.name).join(', ') || 'none'}.`,
    );
  }
  if (!dialect.isIdType(userId.type)) {
    throw new RollcallError(
      'column_type',
      `The column user_id has the type ${userId.type}; it must be text, an integer or a UUID. ${idAdvice(userId.type)}`,
    );
  }
  const freshness = freshnessColumn(definition, columns);
  const id = idText(userId.name, definition.allowPlaceholders ?? false, dialect);
  const newest = freshness === null ? null : newestValue(statement, freshness, latestKnown(definition.asOf));
  const others = columns.filter((column) => column !== userId && column !== freshness);
  const { kind, with: named } = definition;
  const values = kind === 'audience' ? namedColumns(named?.names ?? [], columns) : others;
  const unnamed =
    kind === 'audience' ? { unnamed: others.filter((column) => !values.includes(column)).map(nameOf) } : {};
  if (kind === 'audience' && named === undefined) {
    return { fresh: freshAudience(statement, id), traits: [], newest, ...unnamed };
  }
  if (values.length === 0) {
    throw new RollcallError('column_missing', `The SQL must return a value column beside user_id.`);
  }
  const fields = values.map((column, place) => {
    const value = dialect.traitValue(column);
    if (value === null) {
      throw new RollcallError(
        'column_type',
        `The column ${column.name} has the type ${column.type}, which JSON can't hold. Cast it in the SQL.`,
      );
    }
    const key = named?.names[place] ?? (values.length === 1 ? definition.key : column.name);
    return { key, value, ...dialect.jsonType(column) };
  });
  return {
    fresh: freshValues(statement, id, fields, kind, dialect),
    traits: fields.map(({ key, type, isList }) => ({ key, type, isList })),
    newest,
    ...unnamed,
  };
}

const nameOf = ({ name }: { readonly name: string }) => name;

/**
 * The columns that an audience names. The case of letters is ignored unless two differ by it.
 *
 * @throws RollcallError `column_missing`
 */
export function namedColumns<C extends { readonly name: string }>(
  names: readonly string[],
  columns: readonly C[],
): readonly C[] {
  return names.map((name) => {
    const found =
      columns.find((column) => column.name === name) ??
      columns.find((column) => column.name.toLowerCase() === name.toLowerCase());
    if (found) return found;
    const message = `\`with\` names the column ${name}, but the SQL returns ${columns.map(nameOf).join(', ')}.`;
    throw new RollcallError('column_missing', message);
  });
}

/**
 * Refuses columns that are named alike, as in `select a.*, b.*`: which of them counts would be a guess.
 *
 * @param differs - true if names that differ by case are two
 */
export function refuseRepeated({ kind, with: columns }: Definition, names: readonly string[], differs: boolean): void {
  const same = differs ? names : names.map((name) => name.toLowerCase());
  const repeated = names.filter((name, index) => {
    const isTwice = same.indexOf(same[index] ?? '') !== same.lastIndexOf(same[index] ?? '');
    const wanted = ['user_id', ...(columns?.names ?? [])];
    return isTwice && (kind === 'trait' || wanted.some((each) => each.toLowerCase() === name.toLowerCase()));
  });
  if (repeated.length === 0) return;
  const shown = [...new Set(repeated)].join(', ');
  const message = `The SQL returns more than one column named ${shown}. Select one, or name them apart with AS.`;
  throw new RollcallError('column_repeated', message);
}

/** A cast to text would keep the quotes of JSON, and the decimals of a number. */
export function idAdvice(type: string): string {
  if (/json/i.test(type)) return 'Take it as text, with ->> in place of ->: a cast would keep its quotes.';
  if (/double|float|real|decimal|numeric/i.test(type)) return 'Cast it to bigint or decimal(38,0) in the SQL.';
  return 'Cast it in the SQL.';
}

function freshnessColumn({ freshness }: Definition, columns: readonly Column[]): Column | null {
  if (freshness === undefined) return null;
  const wanted = freshness.toLowerCase();
  const found = columns.find((column) => column.name.toLowerCase() === wanted);
  if (found) return found;
  const names = columns.map((column) => column.name).join(', ');
  const message = `expect.freshness names the column ${freshness}, but the SQL returns ${names}.`;
  throw new RollcallError('column_missing', message);
}
