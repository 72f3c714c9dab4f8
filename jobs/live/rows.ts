import type { LiveRow } from '../../src/store/live.ts';
import type { Store } from '../../src/store/port.ts';
import { dayNumber } from './event.ts';
import { idOf, isUser, type Link, readLinks, writeLinks } from './identity.ts';
import { type Kept, oldestDay, readKept, writeKept } from './kept.ts';
import type { Row, Rows } from './people.ts';

export const readRow = ({ raw, person, due, kept, links }: LiveRow): Row => ({
  ...{ raw, person, due },
  kept: readKept(kept),
  links: readLinks(links),
});

export const writeRow = ({ raw, person, due, kept, links }: Row): LiveRow => ({
  ...{ raw, person, due },
  oldest: oldestOf(kept, links),
  kept: writeKept(kept),
  links: writeLinks(links),
});

function oldestOf(kept: Kept, links: readonly Link[]): number | null {
  const oldest = oldestDay(kept);
  return links.reduce<number | null>((least, [, , at]) => Math.min(least ?? dayNumber(at), dayNumber(at)), oldest);
}

/** The rows of a source, as the store has them. */
export function rowsOf(store: Pick<Store, 'liveRows' | 'liveRowsOf'>, source: string): Rows {
  return {
    of: async (raws) => (raws.length === 0 ? [] : (await store.liveRows(source, raws)).map(readRow)),
    ofPersons: async (persons) => (await store.liveRowsOf(source, persons)).map(readRow),
  };
}

/** Rows to write, and those of which nothing is left that anybody asks for. */
export function written(rows: readonly Row[]): { readonly rows: readonly LiveRow[]; readonly gone: readonly string[] } {
  const all = rows.map(writeRow);
  const isEmpty = ({ raw, person, kept, links, due }: LiveRow) =>
    kept === '{}' && links === '[]' && due === null && person === (isUser(raw) ? idOf(raw) : null);
  return { rows: all.filter((row) => !isEmpty(row)), gone: all.filter(isEmpty).map(({ raw }) => raw) };
}
