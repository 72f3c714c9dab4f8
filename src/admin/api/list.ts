import * as z from 'zod';
import { cursorOf, placeOf } from './shapes.ts';

/** The most rows of a page. Such a list is as long as the configuration, and clients may get all of it at once. */
const MOST = 5_000;

export const listPaging = {
  limit: z.coerce.number().int().min(1).max(MOST).default(MOST).describe('Rows of a page at most.'),
  cursor: z.string().max(2_000).optional().describe('`next` of the page before.'),
};

/**
 * A page of a list whose rows keep their order. It continues after the last row of the page before, wherever that is now, or
 * at its former index if the row was removed.
 *
 * @throws RollcallError `invalid_request`
 */
export function pageThrough<T>(
  all: readonly T[],
  keyOf: (row: T) => string,
  { limit, cursor }: { readonly limit: number; readonly cursor?: string | undefined },
): { readonly data: readonly T[]; readonly next: string | null } {
  const from = begin(all, keyOf, placeOf(cursor, /^\d{1,9}:/));
  const data = all.slice(from, from + limit);
  const last = data.at(-1);
  const place = from + data.length;
  return { data, next: last === undefined || place >= all.length ? null : cursorOf(`${place}:${keyOf(last)}`) };
}

function begin<T>(all: readonly T[], keyOf: (row: T) => string, place: string | undefined): number {
  if (place === undefined) return 0;
  const colon = place.indexOf(':');
  const [index, key] = [Number(place.slice(0, colon)), place.slice(colon + 1)];
  const last = all.findIndex((row) => keyOf(row) === key);
  return last < 0 ? Math.max(0, index - 1) : last + 1;
}
