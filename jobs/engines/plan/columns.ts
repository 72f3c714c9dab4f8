import { RollcallError } from '../../../src/kernel/errors.ts';
import type { Definition, TraitColumn } from '../port.ts';

/** A column of a definition's result, by the database's names. */
interface NamedColumn {
  readonly name: string;
  readonly type: string;
}

/** The columns of a definition by their use. */
interface ColumnsByUse<C> {
  readonly user: C;
  /** The `freshness` column; null without one. */
  readonly fresh: C | null;
  /** The values of a trait, or the columns that an audience names, in its order. */
  readonly values: readonly C[];
  /** Columns of an audience that nothing names. */
  readonly unnamed?: readonly string[];
}

/**
 * Finds the columns that a definition needs in its result.
 *
 * @throws RollcallError `column_missing`, `column_type`
 */
export function columnsByUse<C extends NamedColumn>(
  { kind, freshness, with: wanted }: Definition,
  columns: readonly C[],
  isId: (column: C) => boolean,
): ColumnsByUse<C> {
  const named = (wanted: string) => columns.find((column) => column.name.toLowerCase() === wanted.toLowerCase());
  const names = columns.map((column) => column.name).join(', ') || 'none';
  const user = named('user_id');
  if (!user) throw missing(`The SQL must return a column user_id; it returns ${names}.`);
  if (!isId(user)) {
    throw new RollcallError(
      'column_type',
      `The column user_id has the type ${user.type}; it must be text, an integer or a UUID. ${idAdvice(user.type)}`,
    );
  }
  const fresh = freshness === undefined ? null : (named(freshness) ?? null);
  if (freshness !== undefined && !fresh) {
    throw missing(`expect.freshness names the column ${freshness}, but the SQL returns ${names}.`);
  }
  const others = columns.filter((column) => column !== user && column !== fresh);
  if (kind === 'audience') {
    const values = (wanted?.names ?? []).map((name) => columnNamed(name, columns));
    return { user, fresh, values, unnamed: others.filter((each) => !values.includes(each)).map(({ name }) => name) };
  }
  if (others.length === 0) throw missing('The SQL must return a value column beside user_id.');
  return { user, fresh, values: others };
}

/** A description, with the columns that nothing names. */
export const withUnnamed = (
  traits: readonly TraitColumn[],
  unnamed: readonly string[] = [],
): readonly TraitColumn[] => [
  ...traits,
  ...unnamed.map((key) => ({ key, type: 'unknown', isList: false, isUnnamed: true }) as const),
];

/** A column that an audience names. The case of letters is ignored unless two differ by it. */
function columnNamed<C extends NamedColumn>(wanted: string, columns: readonly C[]): C {
  const found =
    columns.find(({ name }) => name === wanted) ??
    columns.find(({ name }) => name.toLowerCase() === wanted.toLowerCase());
  if (found) return found;
  const names = columns.map(({ name }) => name).join(', ');
  throw missing(`\`with\` names the column ${wanted}, but the SQL returns ${names}.`);
}

const missing = (message: string) => new RollcallError('column_missing', message);

/** The error for a column of a trait whose type has no form in JSON. */
export function untellable({ name, type }: NamedColumn): RollcallError {
  return new RollcallError(
    'column_type',
    `The column ${name} has the type ${type}, which JSON can't hold. Cast it in the SQL.`,
  );
}

/** The keys of the values, in their order. */
export function valueKeys({ key, with: wanted }: Definition, values: readonly NamedColumn[]): readonly string[] {
  return wanted?.names ?? (values.length === 1 ? [key] : values.map(({ name }) => name));
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
function idAdvice(type: string): string {
  if (/json/i.test(type)) return 'Take it as text, with ->> in place of ->: a cast would keep its quotes.';
  if (/double|float|real|decimal|numeric/i.test(type)) return 'Cast it to bigint or decimal(38,0) in the SQL.';
  return 'Cast it in the SQL.';
}
