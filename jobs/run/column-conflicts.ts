import { RollcallError } from '../../src/kernel/errors.ts';
import { computations } from '../audience-or-trait.ts';
import type { RunContext } from './run-context.ts';

/**
 * Columns of a computed trait become traits of their own. None may overwrite that of another audience or trait.
 *
 * @throws RollcallError `column_taken`
 */
export async function checkColumns(
  { store, subject, config }: Pick<RunContext, 'store' | 'subject' | 'config'>,
  columns: readonly string[],
): Promise<void> {
  if (subject.kind === 'audience') return;
  const others = new Set(computations(config()).flatMap(({ key }) => (key === subject.key ? [] : [key])));
  const owners = new Map([...others].map((key) => [key, key]));
  for (const { key, kind, columns } of await store.audiences()) {
    if (kind === 'trait' && others.has(key)) for (const column of columns) owners.set(column, key);
  }
  const taken = columns.find((column) => owners.has(column));
  if (taken === undefined) return;
  throw new RollcallError(
    'column_taken',
    `The column ${taken} would overwrite the trait of ${owners.get(taken)}. Give it another name in the SQL.`,
  );
}
