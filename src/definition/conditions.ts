import { hash } from 'node:crypto';
import type { Activity, ComputedPlace, Sequence, Split } from './definition.ts';
import { passesAll, type Test, type TestContext } from './operators.ts';
import type { KeyPath } from './places.ts';

/** The checked conditions of a short definition, by key. */
interface Conditions {
  readonly all: { readonly all: readonly Condition[] };
  readonly any: { readonly any: readonly Condition[] };
  readonly not: { readonly not: Condition };
  /** Somebody did something from `least` to `most` times, both included; null for no upper limit. */
  readonly performed: { readonly performed: Activity; readonly least: number; readonly most: number | null };
  /** The first time that somebody did something, of all in the log, lies in the window. */
  readonly firstTime: { readonly firstTime: Activity };
  /** Somebody did things one after another. */
  readonly sequence: { readonly sequence: Sequence };
  /** Somebody's trait, taken from the latest `identify` that has it, passes all the tests. */
  readonly trait: { readonly trait: KeyPath; readonly tests: readonly Test[] };
  /** Somebody's computed value passes all the tests. */
  readonly computed: { readonly computed: ComputedPlace; readonly tests: readonly Test[] };
  /** Somebody is in a share of all people. */
  readonly split: { readonly split: Split };
  /** Somebody is in another audience at the same instant. */
  readonly inAudience: { readonly inAudience: string };
}

export type ConditionName = keyof Conditions;
export type ConditionOf<Name extends ConditionName> = Conditions[Name];

/** The short definition of an audience (`when`), checked. */
export type Condition = ConditionOf<ConditionName>;

/**
 * A fact about some people. Only that of a split is true of somebody without entries in the log, so the set of people of
 * each other one can be found without reading others.
 */
export type Fact =
  | { readonly kind: 'performed'; readonly activity: Activity; readonly least: number; readonly most: number | null }
  | { readonly kind: 'firstTime'; readonly activity: Activity }
  | { readonly kind: 'sequence'; readonly sequence: Sequence }
  | {
      readonly kind: 'trait';
      readonly path: KeyPath;
      readonly tests: readonly Test[];
      /** True: all tests must pass. False: at least one must fail. */
      readonly passes: boolean;
    }
  | {
      readonly kind: 'computed';
      readonly place: ComputedPlace;
      readonly tests: readonly Test[];
      readonly passes: boolean;
    }
  | { readonly kind: 'audience'; readonly key: string }
  | { readonly kind: 'split'; readonly split: Split };

/** A condition made of facts, by their index in a list. */
export type Formula =
  | { readonly all: readonly Formula[] }
  | { readonly any: readonly Formula[] }
  | { readonly not: Formula }
  | { readonly fact: number };

type GroupName = 'all' | 'any' | 'not';
type SingleName = Exclude<ConditionName, GroupName>;
type Single = ConditionOf<SingleName>;

/** The meaning of a condition that contains no others. */
interface Meaning<Given extends Single> {
  /** The formula of its facts. `place` adds a fact to the list. */
  formula(condition: Given, place: (fact: Fact) => Formula): Formula;
  /** Keys of the audiences that it refers to. */
  audiences(condition: Given): readonly string[];
  /** The activities in it. */
  activities(condition: Given): readonly Activity[];
}

/** A missing value passes or fails whatever the time and other values are. */
const NOTHING_SAID: TestContext = { now: 0, resolve: () => null };

const SINGLE: { readonly [Name in SingleName]: Meaning<ConditionOf<Name>> } = {
  performed: {
    // "At most n times" includes never, which is not a fact, so it is the opposite of "more than n times".
    formula({ performed, least, most }, place) {
      if (least > 0 || most === null) return place({ kind: 'performed', activity: performed, least, most });
      return { not: place({ kind: 'performed', activity: performed, least: most + 1, most: null }) };
    },
    audiences: () => [],
    activities: ({ performed }) => [performed],
  },
  firstTime: {
    formula: ({ firstTime }, place) => place({ kind: 'firstTime', activity: firstTime }),
    audiences: () => [],
    activities: ({ firstTime }) => [firstTime],
  },
  sequence: {
    formula: ({ sequence }, place) => place({ kind: 'sequence', sequence }),
    audiences: () => [],
    activities: ({ sequence: { steps, not } }) => [...steps, ...(not ? [not] : [])].map(({ activity }) => activity),
  },
  trait: {
    formula: ({ trait, tests }, place) =>
      unlessMissing(tests, (passes) => place({ kind: 'trait', path: trait, tests, passes })),
    audiences: () => [],
    activities: () => [],
  },
  computed: {
    formula: ({ computed, tests }, place) =>
      unlessMissing(tests, (passes) => place({ kind: 'computed', place: computed, tests, passes })),
    audiences: () => [],
    activities: () => [],
  },
  inAudience: {
    formula: ({ inAudience }, place) => place({ kind: 'audience', key: inAudience }),
    audiences: ({ inAudience }) => [inAudience],
    activities: () => [],
  },
  split: {
    formula: ({ split }, place) => place({ kind: 'split', split }),
    audiences: () => [],
    activities: () => [],
  },
};

/** If a missing value passes, the fact is that the value does not. */
function unlessMissing(tests: readonly Test[], fact: (passes: boolean) => Formula): Formula {
  const passes = !passesAll(undefined, tests, NOTHING_SAID);
  return passes ? fact(passes) : { not: fact(passes) };
}

const SINGLE_NAMES = Object.keys(SINGLE) as readonly SingleName[];

/** The key of a condition in the configuration. */
export function nameOf(condition: Condition): string {
  if ('performed' in condition || 'firstTime' in condition)
    return KIND_KEYS[('performed' in condition ? condition.performed : condition.firstTime).kind];
  return Object.keys(condition)[0] ?? '';
}

/** The keys of activity in the configuration, by the kind of message. */
export const KIND_KEYS = { track: 'performed', page: 'viewed', screen: 'screen' } as const satisfies Record<
  Activity['kind'],
  string
>;

function meaningOf(condition: Single): Meaning<Single> {
  const name = SINGLE_NAMES.find((candidate) => candidate in condition);
  if (name === undefined) throw new Error('A condition has no name.');
  return SINGLE[name] as Meaning<Single>;
}

/** The conditions in a list or under `not`, each with its keys. None for any other condition. */
function partsOf(condition: Condition): readonly (readonly [keys: readonly PropertyKey[], part: Condition])[] {
  if ('all' in condition) return condition.all.map((part, index) => [['all', index], part]);
  if ('any' in condition) return condition.any.map((part, index) => [['any', index], part]);
  return 'not' in condition ? [[['not'], condition.not]] : [];
}

/** The conditions that contain no others, each with its keys. */
export function singlesIn(
  condition: Condition,
  path: readonly PropertyKey[],
): readonly { readonly path: readonly PropertyKey[]; readonly single: Single }[] {
  if (isSingle(condition)) return [{ path, single: condition }];
  return partsOf(condition).flatMap(([keys, part]) => singlesIn(part, [...path, ...keys]));
}

function isSingle(condition: Condition): condition is Single {
  return !('all' in condition || 'any' in condition || 'not' in condition);
}

/** The number of conditions, including groups and the steps of sequences. */
export function countOf(condition: Condition): number {
  if (isSingle(condition)) return Math.max(1, meaningOf(condition).activities(condition).length);
  return partsOf(condition).reduce((sum, [, part]) => sum + countOf(part), 1);
}

/** Replaces each condition that contains no others. */
export function replaced(condition: Condition, change: (single: Single) => Condition): Condition {
  const inner = (part: Condition) => replaced(part, change);
  if ('all' in condition) return { all: condition.all.map(inner) };
  if ('any' in condition) return { any: condition.any.map(inner) };
  if ('not' in condition) return { not: inner(condition.not) };
  return change(condition);
}

/** Keys as they are written in a path. */
export const pathOf = (keys: readonly PropertyKey[]) =>
  keys.map((key) => (typeof key === 'number' ? `[${key}]` : `.${String(key)}`)).join('');

/** The conditions that must all hold, with their paths in the configuration. */
export function conjunctsOf(
  part: Condition,
  path: string,
): readonly { readonly path: string; readonly part: Condition }[] {
  if (!('all' in part)) return [{ path, part }];
  return part.all.flatMap((each, index) => conjunctsOf(each, `${path}.all[${index}]`));
}

/** The conditions that must all hold, each followed by those in it that contain no others. */
export function conditionsIn(
  when: Condition,
): readonly { readonly path: string; readonly part: Condition; readonly isRequired: boolean }[] {
  return conjunctsOf(when, 'when').flatMap(({ path, part }) => [
    { path, part, isRequired: true },
    ...singlesIn(part, [])
      .filter((inner) => inner.path.length > 0)
      .map((inner) => ({ path: path + pathOf(inner.path), part: inner.single, isRequired: false })),
  ]);
}

/** Keys of the audiences that a condition refers to. */
export function audiencesIn(condition: Condition): readonly string[] {
  return singlesIn(condition, []).flatMap(({ single }) => meaningOf(single).audiences(single));
}

/**
 * The windows of time in a condition, each with the keys of its condition.
 *
 * @param top - the keys of the condition itself
 */
export function windowsIn(
  condition: Condition,
  top: readonly PropertyKey[],
): readonly { readonly path: readonly PropertyKey[]; readonly within: number | null }[] {
  return singlesIn(condition, top).flatMap(({ path, single }) =>
    meaningOf(single)
      .activities(single)
      .slice(0, 1)
      .map(({ within }) => ({ path, within })),
  );
}

/** A condition split into the facts needed of a person, and the formula over them. */
export interface Facts {
  readonly facts: readonly Fact[];
  readonly formula: Formula;
}

/** Splits a condition. A fact that occurs twice is listed once. */
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

/** True if a formula holds for somebody of whom these facts are true. */
export function holds(formula: Formula, isTrue: (fact: number) => boolean): boolean {
  if ('all' in formula) return formula.all.every((part) => holds(part, isTrue));
  if ('any' in formula) return formula.any.some((part) => holds(part, isTrue));
  if ('not' in formula) return !holds(formula.not, isTrue);
  return isTrue(formula.fact);
}

/** More splits than this in one definition are not tried in all combinations. */
const TRIED_SPLITS = 6;

/** True if a formula may hold for somebody of whom nothing is known but the id. */
export function mayHoldForAll({ facts, formula }: Facts): boolean {
  const splits = facts.flatMap(({ kind }, place) => (kind === 'split' ? place : []));
  if (splits.length > TRIED_SPLITS) return true;
  return Array.from({ length: 2 ** splits.length }, (_, chosen) =>
    holds(formula, (fact) => ((chosen >> splits.indexOf(fact)) & 1) === 1 && splits.includes(fact)),
  ).includes(true);
}

/** The number of buckets of a split. */
export const BUCKETS = 10_000;

/** True if a person is in a share. The formula is documented, with examples, in docs/definitions.md. */
export function isInSplit({ name, from, to }: Split, user: string): boolean {
  const bucket = Number(BigInt(`0x${hash('sha256', `${name}:${user}`, 'hex').slice(0, 16)}`) % BigInt(BUCKETS));
  return bucket >= from && bucket < to;
}
