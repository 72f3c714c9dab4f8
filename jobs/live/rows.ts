import type { LiveRow } from '../../src/store/live.ts';
import type { Store } from '../../src/store/port.ts';
import type { Link } from './identity.ts';
import { idOf, isUser } from './identity.ts';
import { readKept, writeKept } from './kept.ts';
import type { Row, Rows } from './people.ts';

const readRow = ({ kept, links, ...row }: LiveRow): Row => ({
  ...row,
  kept: readKept(kept),
  links: JSON.parse(links) as Link[],
});

const writeRow = ({ kept, links, ...row }: Row): LiveRow => ({
  ...row,
  kept: writeKept(kept),
  links: JSON.stringify(links),
});

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
