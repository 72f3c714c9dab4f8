import { referenceOf } from '../../src/definition/operators.ts';
import type { ScannedRow, Wanted, WantedActivity } from '../../src/store/event-log.ts';
import type { AskedOfAll } from './facts.ts';
import { addLink, anonymousRaw, userRaw } from './identity.ts';
import { nothingKept, type Section } from './kept.ts';
import { keep } from './kept-facts.ts';
import type { IdRow } from './people.ts';

/** The part of the log that the definitions need. @param now - no later than their computation */
export function wantedOf({ sectionById, traits, everybody, keep }: AskedOfAll, now: number): Wanted {
  const activities = [...sectionById.values()].map((section) => wantedActivity(section, now));
  return { keep, activities, traits: traits.size > 0, everybody };
}

function wantedActivity({ activity, of, keeps }: Section, now: number): WantedActivity {
  const { kind, names, since, within, where } = activity;
  const first = Math.max(since ?? Number.NEGATIVE_INFINITY, within === null ? Number.NEGATIVE_INFINITY : now - within);
  const properties = where.flatMap(({ tests }) =>
    tests.flatMap((test) => {
      const reference = referenceOf(test);
      return reference && 'property' in reference ? reference.property : [];
    }),
  );
  return {
    ...{ kind, names },
    since: Number.isFinite(first) ? first : null,
    parts: new Set([...where, ...properties, ...(of ? [of] : [])].map(({ part }) => part)),
    ids: keeps === 'values' || keeps === 'first',
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
