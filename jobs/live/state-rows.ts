import type { LiveCommit, LiveRow, LiveState } from '../../src/store/live.ts';
import { dayNumber } from './event.ts';
import { idOf, isUser, type Link, readLinks, writeLinks } from './identity.ts';
import { type KeptFacts, readKept, writeKept } from './kept.ts';
import { oldestDay } from './kept-facts.ts';
import type { IdRow, IdRows } from './people.ts';

const readRow = ({ raw, person, due, oldest, kept, links }: LiveRow): IdRow => ({
  ...{ raw, person, due },
  kept: readKept(kept),
  links: readLinks(links),
  before: { person, due, oldest },
});

const writeRow = ({ raw, person, due, kept, links }: IdRow): LiveRow => ({
  ...{ raw, person, due },
  oldest: oldestOf(kept, links),
  kept: writeKept(kept),
  links: writeLinks(links),
});

function oldestOf(kept: KeptFacts, links: readonly Link[]): number | null {
  const oldest = oldestDay(kept);
  return links.reduce<number | null>((least, [, , at]) => Math.min(least ?? dayNumber(at), dayNumber(at)), oldest);
}

/** The rows of a state in the store. */
export function rowsOf(live: Pick<LiveState, 'rowsAround' | 'rowsOfPersons'>, state: number): IdRows {
  return {
    around: async (raws, isLean) =>
      raws.length === 0 ? [] : (await live.rowsAround(state, raws, isLean)).map(readRow),
    ofPersons: async (persons) => (persons.length === 0 ? [] : (await live.rowsOfPersons(state, persons)).map(readRow)),
  };
}

/** The rows to write, the empty rows to delete, and the resulting change of the number of rows. */
export function written(rows: readonly IdRow[]): Pick<LiveCommit, 'rows' | 'contents' | 'gone' | 'more'> {
  const kept: LiveRow[] = [];
  const contents: LiveRow[] = [];
  const gone: string[] = [];
  const more = { ids: 0, due: 0 };
  for (const row of rows) {
    const text = writeRow(row);
    const isGone = isEmpty(text);
    if (isGone) gone.push(row.raw);
    else if (isIndexedAlike(text, row.before)) contents.push(text);
    else kept.push(text);
    more.ids += Number(!isGone) - Number(row.before !== null);
    more.due += Number(!isGone && row.due !== null) - Number((row.before?.due ?? null) !== null);
  }
  return { rows: kept, contents, gone, more };
}

/** True if the indexed columns are unchanged. */
function isIndexedAlike({ person, due, oldest }: LiveRow, before: IdRow['before']): boolean {
  return before !== null && person === before.person && due === before.due && oldest === before.oldest;
}

function isEmpty({ raw, person, kept, links, due }: LiveRow): boolean {
  return kept === '{}' && links === '[]' && due === null && person === (isUser(raw) ? idOf(raw) : null);
}
