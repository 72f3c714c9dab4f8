import type { Test } from './operators.ts';

/** The keys of nested objects, from the outside in. */
export type KeyPath = readonly string[];

/** The parts of a message that a filter can read. */
export const MESSAGE_PARTS = ['properties', 'context', 'traits'] as const;

/** A place in a message. */
export interface FieldPlace {
  readonly part: (typeof MESSAGE_PARTS)[number];
  readonly path: KeyPath;
}

/** A place in a message, and the tests that its value must all pass. */
export interface PlaceFilter extends FieldPlace {
  readonly tests: readonly Test[];
}

/** Track events of one name, in a window of time that ends now. */
export interface Activity {
  readonly event: string;
  /** Only events less than this before now count, in milliseconds; null for no such limit. */
  readonly within: number | null;
  /** Only events at or after this instant count, in milliseconds since 1970; null for no such limit. */
  readonly since: number | null;
  readonly where: readonly PlaceFilter[];
}

/** Operators on a property of a person's events. */
export const PROPERTY_OPERATORS = [
  'sum',
  'average',
  'min',
  'max',
  'mostFrequent',
  'first',
  'last',
  'uniqueCount',
  'uniqueList',
] as const;

/** The short definition of a computed trait (`value`), checked. */
export type TraitValue =
  | { readonly operator: 'count'; readonly activity: Activity }
  | {
      readonly operator: (typeof PROPERTY_OPERATORS)[number];
      readonly activity: Activity;
      readonly of: FieldPlace;
    };

/** The most items of a `uniqueList`. The lowest ones are kept. */
export const LONGEST_LIST = 1_000;
