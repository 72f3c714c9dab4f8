import { type Fact, isInSplit } from '../../src/definition/conditions.ts';
import {
  changesAt,
  passesAll,
  type TestContext,
  traitsIn,
  type ValueReference,
} from '../../src/definition/operators.ts';
import { type Judged, stepsDone } from '../../src/definition/sequence.ts';
import { likelyTime, valueAt } from './event.ts';
import { byLikelyTime, compareDated, type Dated, type KeptFacts, type Section, sectionOf } from './kept.ts';

/** Somebody, and the instant at which facts are judged. */
export interface JudgedPerson {
  readonly user: string;
  /** Kept facts of all ids of the person. */
  readonly kept: readonly KeptFacts[];
  readonly now: number;
}

/** A fact that live audiences ask for: what to keep of people, and how to judge it. */
export interface AskedFact {
  /** For a section that keeps `times`, `newest` is the number of newest ones that is enough. */
  readonly sections: readonly { readonly section: Section; readonly newest: number }[];
  /** Outermost keys of traits. */
  readonly traits: readonly string[];
  /** Keys of audiences that are computed by SQL. */
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
  trait({ path: [trait = '', ...rest], tests, passes }) {
    return {
      ...NOTHING,
      traits: [...new Set([trait, ...traitsIn([{ tests }])])],
      judge(person) {
        const latest = latestTrait(person, trait);
        if (latest === undefined) return { isTrue: false, due: null };
        const value = valueAt(latest, rest);
        const due = tests.reduce<number | null>((due, test) => sooner(due, changesAt(value, test, person.now)), null);
        return { isTrue: passesAll(value, tests, contextOf(person)) === passes, due };
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

/** @param keep - how long the log keeps events, in milliseconds */
export function askedFact(fact: Fact, keep: number): AskedFact {
  const asked = ASKED[fact.kind] as (fact: Fact, keep: number) => AskedFact;
  return asked(fact, keep);
}

export function sooner(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b;
  return Math.min(a, b);
}

/** The value of a trait in the latest `identify` that has it; undefined for none. */
function latestTrait({ kept }: JudgedPerson, trait: string): unknown {
  return kept
    .flatMap(({ traits }) => traits[trait] ?? [])
    .toSorted(compareDated)
    .at(-1)?.[3];
}

function contextOf(person: JudgedPerson): TestContext {
  const resolve = (reference: ValueReference) => {
    if (!('trait' in reference)) return undefined;
    const [trait = '', ...rest] = reference.trait;
    return valueAt(latestTrait(person, trait), rest);
  };
  return { now: person.now, resolve };
}

/** Entries of a section that pass its moving filters, in or out of the window, and when others may. */
export function entriesOf(
  { id, moving }: Section,
  person: JudgedPerson,
): { readonly entries: readonly Dated[]; readonly due: number | null } {
  const entries = person.kept.flatMap(({ values }) => values[id] ?? []);
  if (moving.length === 0) return { entries, due: null };
  const context = contextOf(person);
  let due: number | null = null;
  const passing = entries.filter(([, , , , inputs = []]) => {
    for (const [place, { tests }] of moving.entries())
      for (const test of tests) due = sooner(due, changesAt(inputs[place], test, person.now));
    return moving.every(({ tests }, place) => passesAll(inputs[place], tests, context));
  });
  return { entries: passing, due };
}

/** The latest time that counts. What was received with a time that is in the future by a corrected clock counts at once. */
export function lastCounted(now: number, until: number): number {
  return until === 0 ? Number.POSITIVE_INFINITY : now - until;
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
