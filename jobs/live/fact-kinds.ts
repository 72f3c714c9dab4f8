import type { Fact } from '../../src/definition/conditions.ts';
import { passesAll } from '../../src/definition/operators.ts';
import { valueAt } from './event.ts';
import { compareDated, type KeptFacts, type Section, sectionOf } from './kept.ts';

interface Judged {
  readonly isTrue: boolean;
  /** The time at which this may change without events; null for never. */
  readonly due: number | null;
}

/** A fact that live audiences ask for: what to keep of people, and how to judge it. */
export interface AskedFact {
  /** For a section that keeps `times`, `newest` is the number of newest ones that is enough. */
  readonly sections: readonly { readonly section: Section; readonly newest: number }[];
  /** Outermost keys of traits. */
  readonly traits: readonly string[];
  /** Keys of audiences that are computed by SQL. */
  readonly audiences: readonly string[];
  /** @param person - kept facts of all ids of one person */
  judge(person: readonly KeptFacts[], now: number): Judged;
}

type FactOf<Kind extends Fact['kind']> = Extract<Fact, { readonly kind: Kind }>;

const ASKED: { readonly [Kind in Fact['kind']]: (fact: FactOf<Kind>, keep: number) => AskedFact } = {
  performed({ activity, least, most }, keep) {
    const section = sectionOf(activity, null, keep);
    // To see that a count exceeds `most`, keep `most + 1`.
    const newest = most === null ? least : most + 1;
    const asked = { section, least, most: most ?? Number.POSITIVE_INFINITY };
    return {
      sections: [{ section, newest }],
      traits: [],
      audiences: [],
      judge: (person, now) => judgePerformed(asked, person, now),
    };
  },
  trait({ path: [trait = '', ...rest], tests, passes }) {
    return {
      sections: [],
      traits: [trait],
      audiences: [],
      judge(person) {
        const said = person.flatMap(({ traits }) => traits[trait] ?? []).toSorted(compareDated);
        const latest = said.at(-1);
        if (latest === undefined) return { isTrue: false, due: null };
        return { isTrue: passesAll(valueAt(latest[3], rest), tests) === passes, due: null };
      },
    };
  },
  audience: ({ key }) => ({
    sections: [],
    traits: [],
    audiences: [key],
    judge: (person) => ({ isTrue: person.some((each) => Object.hasOwn(each.in, key)), due: null }),
  }),
};

/** @param keep - how long the log keeps events, in milliseconds */
export function askedFact(fact: Fact, keep: number): AskedFact {
  const asked = ASKED[fact.kind] as (fact: Fact, keep: number) => AskedFact;
  return asked(fact, keep);
}

interface AskedCount {
  readonly section: Section;
  readonly least: number;
  readonly most: number;
}

/** Over time events only leave the window, oldest first, so it is known when the count will fall. */
function judgePerformed({ section, least, most }: AskedCount, person: readonly KeptFacts[], now: number): Judged {
  const { id, keeps, activity } = section;
  const within = activity.within ?? Number.POSITIVE_INFINITY;
  if (keeps === 'days') {
    const days = person.flatMap(({ days }) => Object.values(days[id] ?? {}));
    const count = days.reduce((sum, each) => sum + each, 0);
    return { isTrue: count >= least && count <= most, due: null };
  }
  const all = keeps === 'times' ? person.flatMap(({ times }) => times[id] ?? []) : datesOf(id, person);
  const times = all.filter((at) => at > now - within);
  const count = times.length;
  if (count < least) return { isTrue: false, due: null };
  const isTrue = count <= most;
  // The event whose leaving will change the result.
  const last = isTrue ? count - least : count - most - 1;
  const leaving = times.toSorted((a, b) => a - b)[last];
  return { isTrue, due: leaving === undefined ? null : leaving + within };
}

const datesOf = (section: string, person: readonly KeptFacts[]) =>
  person.flatMap(({ values }) => values[section] ?? []).map(([at]) => at);
