import type { Activity, Condition, KeyPath, Performed, Test, TraitCondition } from './definition.ts';

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

/** Whether a formula holds of somebody of whom these facts are true. */
export function holds(formula: Formula, isTrue: (fact: number) => boolean): boolean {
  if ('all' in formula) return formula.all.every((part) => holds(part, isTrue));
  if ('any' in formula) return formula.any.some((part) => holds(part, isTrue));
  if ('not' in formula) return !holds(formula.not, isTrue);
  return isTrue(formula.fact);
}

function formulaOf(condition: Condition, place: (fact: Fact) => Formula): Formula {
  const inner = (part: Condition) => formulaOf(part, place);
  if ('all' in condition) return { all: condition.all.map(inner) };
  if ('any' in condition) return { any: condition.any.map(inner) };
  if ('not' in condition) return { not: inner(condition.not) };
  if ('performed' in condition) return performedFormula(condition, place);
  if ('trait' in condition) return traitFormula(condition, place);
  return place({ kind: 'audience', key: condition.inAudience });
}

/** "At most n times" includes never, which is no fact: it is the opposite of "more than n times". */
function performedFormula({ performed, least, most }: Performed, place: (fact: Fact) => Formula): Formula {
  if (least > 0 || most === null) return place({ kind: 'performed', activity: performed, least, most });
  return { not: place({ kind: 'performed', activity: performed, least: most + 1, most: null }) };
}

/** Where a missing trait passes, the fact is that the trait does not. */
function traitFormula({ trait, tests }: TraitCondition, place: (fact: Fact) => Formula): Formula {
  const passes = !tests.every(passesMissing);
  const fact = place({ kind: 'trait', path: trait, tests, passes });
  return passes ? fact : { not: fact };
}

/** Whether a value that is not there passes: it is not equal to anything. */
function passesMissing({ operator, operand }: Test): boolean {
  return operator === 'isNot' || (operator === 'exists' && operand === false);
}
