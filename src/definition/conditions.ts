import type { Activity, KeyPath } from './definition.ts';
import { passesAll, type Test } from './operators.ts';

/** The conditions of a short definition, checked, by the key that each is known by. */
interface Conditions {
  readonly all: { readonly all: readonly Condition[] };
  readonly any: { readonly any: readonly Condition[] };
  readonly not: { readonly not: Condition };
  /** Somebody did something from `least` to `most` times, both included; null for no upper limit. */
  readonly performed: { readonly performed: Activity; readonly least: number; readonly most: number | null };
  /** Somebody's trait, as the latest `identify` that has it says, passes all the tests. */
  readonly trait: { readonly trait: KeyPath; readonly tests: readonly Test[] };
  /** Somebody is in another audience at the same instant. */
  readonly inAudience: { readonly inAudience: string };
}

export type ConditionName = keyof Conditions;
export type ConditionOf<Name extends ConditionName> = Conditions[Name];

/** The short definition of an audience (`when`), checked. */
export type Condition = ConditionOf<ConditionName>;

/**
 * One thing that is true of some people, and never of somebody of whom the log says nothing. So each fact is a set that
 * can be found by looking only at the people it is about.
 */
export type Fact =
  | { readonly kind: 'performed'; readonly activity: Activity; readonly least: number; readonly most: number | null }
  | {
      readonly kind: 'trait';
      readonly path: KeyPath;
      readonly tests: readonly Test[];
      /** Whether the tests must all pass, or not all of them. */
      readonly passes: boolean;
    }
  | { readonly kind: 'audience'; readonly key: string };

/** How facts, by their place in a list, make a condition. */
export type Formula =
  | { readonly all: readonly Formula[] }
  | { readonly any: readonly Formula[] }
  | { readonly not: Formula }
  | { readonly fact: number };

type GroupName = 'all' | 'any' | 'not';
type SingleName = Exclude<ConditionName, GroupName>;
type Single = ConditionOf<SingleName>;

/** What a condition means that has no others in it. */
interface Meaning<Given extends Single> {
  /** The facts that it is made of. */
  formula(condition: Given, place: (fact: Fact) => Formula): Formula;
  /** Keys of the audiences that it names. */
  audiences(condition: Given): readonly string[];
  /** Its `within`, in milliseconds. */
  within(condition: Given): number | null;
}

const SINGLE: { readonly [Name in SingleName]: Meaning<ConditionOf<Name>> } = {
  performed: {
    // "At most n times" includes never, which is no fact: it is the opposite of "more than n times".
    formula({ performed, least, most }, place) {
      if (least > 0 || most === null) return place({ kind: 'performed', activity: performed, least, most });
      return { not: place({ kind: 'performed', activity: performed, least: most + 1, most: null }) };
    },
    audiences: () => [],
    within: ({ performed }) => performed.within,
  },
  trait: {
    // If a missing trait passes, the fact is that the trait does not.
    formula({ trait, tests }, place) {
      const passes = !passesAll(undefined, tests);
      const fact = place({ kind: 'trait', path: trait, tests, passes });
      return passes ? fact : { not: fact };
    },
    audiences: () => [],
    within: () => null,
  },
  inAudience: {
    formula: ({ inAudience }, place) => place({ kind: 'audience', key: inAudience }),
    audiences: ({ inAudience }) => [inAudience],
    within: () => null,
  },
};
const SINGLE_NAMES = Object.keys(SINGLE) as readonly SingleName[];

/** In the order in which mistakes name them. */
export const CONDITION_NAMES: readonly ConditionName[] = ['all', 'any', 'not', ...SINGLE_NAMES];

function meaningOf(condition: Single): Meaning<Single> {
  const name = SINGLE_NAMES.find((candidate) => candidate in condition);
  if (name === undefined) throw new Error('A condition has no name.');
  return SINGLE[name] as Meaning<Single>;
}

/** The conditions in a list or under `not`, each with the keys that lead to it; none for any other condition. */
function partsOf(condition: Condition): readonly (readonly [keys: readonly PropertyKey[], part: Condition])[] {
  if ('all' in condition) return condition.all.map((part, index) => [['all', index], part]);
  if ('any' in condition) return condition.any.map((part, index) => [['any', index], part]);
  return 'not' in condition ? [[['not'], condition.not]] : [];
}

/** The conditions that have no others in them, each with the keys that lead to it. */
function singlesIn(
  condition: Condition,
  path: readonly PropertyKey[],
): readonly { readonly path: readonly PropertyKey[]; readonly single: Single }[] {
  if (isSingle(condition)) return [{ path, single: condition }];
  return partsOf(condition).flatMap(([keys, part]) => singlesIn(part, [...path, ...keys]));
}

function isSingle(condition: Condition): condition is Single {
  return !('all' in condition || 'any' in condition || 'not' in condition);
}

/** How many conditions there are, groups included. */
export function countOf(condition: Condition): number {
  return partsOf(condition).reduce((sum, [, part]) => sum + countOf(part), 1);
}

/** A condition with each condition that has no others in it replaced. */
export function replaced(condition: Condition, change: (single: Single) => Condition): Condition {
  const inner = (part: Condition) => replaced(part, change);
  if ('all' in condition) return { all: condition.all.map(inner) };
  if ('any' in condition) return { any: condition.any.map(inner) };
  if ('not' in condition) return { not: inner(condition.not) };
  return change(condition);
}

/** Keys of the audiences that a condition names. */
export function audiencesIn(condition: Condition): readonly string[] {
  return singlesIn(condition, []).flatMap(({ single }) => meaningOf(single).audiences(single));
}

/**
 * The windows of time in a condition, each with the keys that lead to its condition.
 *
 * @param top - the keys that lead to the condition itself
 */
export function windowsIn(
  condition: Condition,
  top: readonly PropertyKey[],
): readonly { readonly path: readonly PropertyKey[]; readonly within: number | null }[] {
  return singlesIn(condition, top).map(({ path, single }) => ({ path, within: meaningOf(single).within(single) }));
}

/** A condition taken apart: what has to be known of a person, and what follows from it. */
interface Facts {
  readonly facts: readonly Fact[];
  readonly formula: Formula;
}

/** Takes a condition apart. A fact that it names twice is one. */
export function factsOf(condition: Condition): Facts {
  const facts = new Map<string, { readonly fact: Fact; readonly place: number }>();
  const place = (fact: Fact): Formula => {
    const id = JSON.stringify(fact);
    const known = facts.get(id) ?? { fact, place: facts.size };
    facts.set(id, known);
    return { fact: known.place };
  };
  const formula = formulaOf(condition, place);
  return { facts: [...facts.values()].map(({ fact }) => fact), formula };
}

function formulaOf(condition: Condition, place: (fact: Fact) => Formula): Formula {
  const inner = (part: Condition) => formulaOf(part, place);
  if ('all' in condition) return { all: condition.all.map(inner) };
  if ('any' in condition) return { any: condition.any.map(inner) };
  if ('not' in condition) return { not: inner(condition.not) };
  return meaningOf(condition).formula(condition, place);
}

/** True if a formula holds of somebody of whom these facts are true. */
export function holds(formula: Formula, isTrue: (fact: number) => boolean): boolean {
  if ('all' in formula) return formula.all.every((part) => holds(part, isTrue));
  if ('any' in formula) return formula.any.some((part) => holds(part, isTrue));
  if ('not' in formula) return !holds(formula.not, isTrue);
  return isTrue(formula.fact);
}
