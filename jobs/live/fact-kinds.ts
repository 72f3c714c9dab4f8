import { type Fact, isInSplit } from '../../src/definition/conditions.ts';
import type { ComputedPlace } from '../../src/definition/definition.ts';
import { changesAt, compareText, passesAll, traitsIn } from '../../src/definition/operators.ts';
import { type Judged, stepsDone } from '../../src/definition/sequence.ts';
import { isPlaceholder } from '../../src/kernel/placeholders.ts';
import { likelyTime, valueAt } from './event.ts';
import { contextOf, entriesOf, type JudgedPerson, lastCounted, latestTrait, sooner } from './judge/person.ts';
import { traitSection, traitValue } from './judge/trait-value.ts';
import { byLikelyTime, referenceTo, type Section, sectionOf } from './kept.ts';

/** A fact that live audiences ask for: what to keep of people, and how to judge it. */
export interface AskedFact {
  /** For a section that keeps `times`, `newest` is the number of newest ones that is enough. */
  readonly sections: readonly { readonly section: Section; readonly newest: number }[];
  /** Outermost keys of traits. */
  readonly traits: readonly string[];
  /** Names of audiences and values that are imported from syncs. */
  readonly audiences: readonly string[];
  /** True if it may be true of somebody without entries in the log. */
  readonly isOfId: boolean;
  judge(person: JudgedPerson): Judged;
}

type FactOf<Kind extends Fact['kind']> = Extract<Fact, { readonly kind: Kind }>;

const NOTHING: Omit<AskedFact, 'judge'> = { sections: [], traits: [], audiences: [], isOfId: false };
const all = (section: Section) => ({ section, newest: Number.POSITIVE_INFINITY });

const ASKED: { readonly [Kind in Fact['kind']]: (fact: FactOf<Kind>, keep: number) => AskedFact } = {
  performed({ activity, least, most }, keep) {
    const section = sectionOf(activity, null, keep);
    // To see that a count exceeds `most`, keep `most + 1`. Events that do not count yet need room, too.
    const newest = activity.until > 0 ? Number.POSITIVE_INFINITY : most === null ? least : most + 1;
    const asked = { section, least, most: most ?? Number.POSITIVE_INFINITY };
    return {
      ...NOTHING,
      sections: [{ section, newest }],
      traits: traitsIn(section.moving),
      judge: (person) => judgePerformed(asked, person),
    };
  },
  firstTime({ activity }, keep) {
    const always = { ...activity, within: null, until: 0, since: null };
    const section = sectionOf(always, null, keep, 'first');
    return {
      ...NOTHING,
      sections: [all(section)],
      traits: traitsIn(section.moving),
      judge(person) {
        const { entries, due } = entriesOf(section, person);
        const first = entries.toSorted(byLikelyTime(keep))[0];
        if (first === undefined) return { isTrue: false, due };
        const at = likelyTime(first[0], first[1], keep);
        const { now } = person;
        const isSince = activity.since === null || at >= activity.since;
        const leaves = activity.within === null ? Number.POSITIVE_INFINITY : at + activity.within;
        const enters = at + activity.until;
        const next =
          [...(activity.until > 0 ? [enters] : []), leaves].find((each) => each > now && Number.isFinite(each)) ?? null;
        return { isTrue: isSince && at <= lastCounted(now, activity.until) && now < leaves, due: sooner(due, next) };
      },
    };
  },
  sequence({ sequence }, keep) {
    const steps = sequence.steps.map(({ activity }) => sectionOf(activity, null, keep, 'values'));
    const not = sequence.not === null ? null : sectionOf(sequence.not.activity, null, keep, 'values');
    const sections = [...steps, ...(not === null ? [] : [not])];
    return {
      ...NOTHING,
      sections: sections.map(all),
      traits: [...new Set(sections.flatMap(({ moving }) => traitsIn(moving)))],
      judge(person) {
        const found = steps.map((section) => entriesOf(section, person));
        const answers = not === null ? null : entriesOf(not, person);
        const judged = stepsDone(
          sequence,
          found.map(({ entries }) => entries),
          answers?.entries ?? [],
          person.now,
        );
        return {
          ...judged,
          due: [...found, answers].reduce((due, each) => sooner(due, each?.due ?? null), judged.due),
        };
      },
    };
  },
  trait({ path: [trait = '', ...rest], ...asked }) {
    return {
      ...NOTHING,
      traits: [...new Set([trait, ...traitsIn([asked])])],
      judge(person) {
        const latest = latestTrait(person, trait);
        return latest === undefined ? FALSE : judgeValue(valueAt(latest, rest), asked, person);
      },
    };
  },
  computed({ place, ...asked }, keep) {
    if (place.live) return ofLiveTrait(place.key, place.live, asked, keep);
    const name = referenceTo(place);
    return {
      ...NOTHING,
      audiences: [name],
      traits: traitsIn([asked]),
      judge(person) {
        const value = importedValue(person, name);
        return value === undefined ? FALSE : judgeValue(value, asked, person);
      },
    };
  },
  audience: ({ key }) => ({
    ...NOTHING,
    audiences: [key],
    judge: ({ kept }) => ({ isTrue: kept.some((each) => Object.hasOwn(each.in, key)), due: null }),
  }),
  split: ({ split }) => ({
    ...NOTHING,
    isOfId: true,
    judge: ({ user }) => ({ isTrue: isInSplit(split, user), due: null }),
  }),
};

type ValueTests = Pick<FactOf<'trait'>, 'tests' | 'passes'>;

const FALSE: Judged = { isTrue: false, due: null };

function judgeValue(value: unknown, { tests, passes }: ValueTests, person: JudgedPerson): Judged {
  const due = tests.reduce<number | null>((due, test) => sooner(due, changesAt(value, test, person.now)), null);
  return { isTrue: passesAll(value, tests, contextOf(person)) === passes, due };
}

function ofLiveTrait(
  key: string,
  { value, allowPlaceholders }: NonNullable<ComputedPlace['live']>,
  asked: ValueTests,
  keep: number,
): AskedFact {
  const section = traitSection(value, keep);
  return {
    ...NOTHING,
    sections: [all(section)],
    traits: [...new Set([...traitsIn(section.moving), ...traitsIn([asked])])],
    judge(person) {
      const found = traitValue({ key, value, section }, person);
      if (found.value === undefined || (isPlaceholder(person.user) && !allowPlaceholders))
        return { isTrue: false, due: found.due };
      const judged = judgeValue(found.value, asked, person);
      return { ...judged, due: sooner(judged.due, found.due) };
    },
  };
}

/** That of the current id counts, or else that of the least former one. */
function importedValue({ kept, user }: JudgedPerson, name: string): unknown {
  const values = kept.flatMap(({ in: { [name]: imported } }) => (Array.isArray(imported) ? [imported] : []));
  const [found] = values.toSorted(([a], [b]) => Number(b === user) - Number(a === user) || compareText(a, b));
  return found?.[1];
}

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

function judgePerformed({ section, least, most }: AskedCount, person: JudgedPerson): Judged {
  const { id, keeps, activity } = section;
  const { kept, now } = person;
  if (keeps === 'days') {
    const days = kept.flatMap(({ days }) => Object.values(days[id] ?? {}));
    const count = days.reduce((sum, each) => sum + each, 0);
    return { isTrue: count >= least && count <= most, due: null };
  }
  const found = keeps === 'times' ? null : entriesOf(section, person);
  const all = found === null ? kept.flatMap(({ times }) => times[id] ?? []) : found.entries.map(([at]) => at);
  const counted = countBetween(
    all,
    { within: activity.within ?? Number.POSITIVE_INFINITY, until: activity.until, least, most },
    now,
  );
  return { ...counted, due: sooner(counted.due, found?.due ?? null) };
}

/** Over time events leave the window oldest first, so it is known when the count will fall, unless others enter before. */
function countBetween(
  all: readonly number[],
  { within, until, least, most }: { within: number; until: number; least: number; most: number },
  now: number,
): Judged {
  const last = lastCounted(now, until);
  const times = all.filter((at) => at > now - within && at <= last);
  const count = times.length;
  const isTrue = count >= least && count <= most;
  const coming = all.filter((at) => at > last);
  const enters = coming.length === 0 ? null : Math.min(...coming.map((at) => at + until));
  if (count < least) return { isTrue, due: enters };
  // The event whose leaving will change the result.
  const place = isTrue ? count - least : count - most - 1;
  const leaving = times.toSorted((a, b) => a - b)[place];
  return { isTrue, due: sooner(enters, leaving === undefined ? null : leaving + within) };
}
