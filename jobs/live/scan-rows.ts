import type { ScannedRow, Wanted, WantedEvent } from '../../src/store/event-log.ts';
import type { AskedOfAll } from './facts.ts';
import { addLink, anonymousRaw, userRaw } from './identity.ts';
import { nothingKept, type Section } from './kept.ts';
import { keep } from './kept-facts.ts';
import type { IdRow } from './people.ts';

/** The part of the log that the definitions need. @param now - no later than their computation */
export function wantedOf({ sections, traits, everybody, keep }: AskedOfAll, now: number): Wanted {
  const events = new Map([...sections].map(([name, own]) => [name, wantedEvent(own, now)]));
  return { keep, events, traits: traits.size > 0, everybody };
}

function wantedEvent(sections: readonly Section[], now: number): WantedEvent {
  const starts = sections.map(({ activity: { since, within } }) =>
    Math.max(since ?? Number.NEGATIVE_INFINITY, within === null ? Number.NEGATIVE_INFINITY : now - within),
  );
  const first = Math.min(...starts);
  return {
    since: Number.isFinite(first) ? first : null,
    parts: new Set(
      sections.flatMap(({ activity, of }) => [...activity.where, ...(of ? [of] : [])].map(({ part }) => part)),
    ),
    ids: sections.some(({ keeps }) => keeps === 'values'),
  };
}

/**
 * Makes rows from a scan's results for each id.
 *
 * @returns complete rows, with the number of items read for them and for the next one
 */
export async function* rowsIn(
  scanned: AsyncIterable<readonly ScannedRow[]>,
  asked: AskedOfAll,
): AsyncGenerator<{ readonly rows: readonly IdRow[]; readonly count: number }> {
  let current = null as IdRow | null;
  for await (const found of scanned) {
    const rows: IdRow[] = [];
    for (const each of found) {
      const raw = (each.isAnonymous ? anonymousRaw : userRaw)(each.id);
      if (current?.raw !== raw) {
        if (current) rows.push(current);
        current = { raw, person: each.person, kept: nothingKept(), links: [], due: null, before: null };
      }
      if (each.linked === null) keep(current.kept, each, asked);
      else addLink(current.links, raw, [each.linked, each.timestamp, each.receivedAt, each.messageId]);
    }
    yield { rows, count: found.length };
  }
  if (current) yield { rows: [current], count: 0 };
}
