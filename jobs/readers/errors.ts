import { ERROR_CODES } from '../../src/kernel/error-codes.ts';
import { type ErrorCode, RollcallError } from '../../src/kernel/errors.ts';
import { excerptOf } from '../engines/sql/excerpt.ts';

/**
 * An error about a definition, with the line of its mistake.
 *
 * @param place - of the mistake in the definition; null if the database doesn't name it
 */
export function definitionError(
  cause: Error,
  { sql, place }: { readonly sql: string; readonly place: number | null },
): RollcallError {
  const excerpt = place === null ? '' : excerptOf(sql, place);
  return new RollcallError('sql_failed', `${cause.message}${excerpt}`, { cause });
}

/** The place of a line and column of a text, the first of which are 1 and 0. */
export function placeOfLine(text: string, line: number, column: number): number {
  const before = text.split('\n').slice(0, line - 1);
  return Math.min(
    before.reduce((sum, each) => sum + each.length + 1, column),
    text.length,
  );
}

/** Recognizes an error by its code: a module may come with another copy of its class. */
export function codeOf(error: unknown): ErrorCode | null {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  return typeof code === 'string' && Object.hasOwn(ERROR_CODES, code) ? (code as ErrorCode) : null;
}
