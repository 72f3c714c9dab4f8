import type { Activity, KeyPath } from './definition.ts';
import type { Test } from './operators.ts';

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

/** Whether a formula holds of somebody of whom these facts are true. */
export function holds(formula: Formula, isTrue: (fact: number) => boolean): boolean {
  if ('all' in formula) return formula.all.every((part) => holds(part, isTrue));
  if ('any' in formula) return formula.any.some((part) => holds(part, isTrue));
  if ('not' in formula) return !holds(formula.not, isTrue);
  return isTrue(formula.fact);
}
