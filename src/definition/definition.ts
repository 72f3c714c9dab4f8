/** A value that a filter compares with one in a message. */
export type Scalar = string | number | boolean;

/** The keys of nested objects, from the outside in. */
export type KeyPath = readonly string[];

/** One operator and what it compares with. */
export type Test =
  | { readonly operator: 'is' | 'contains'; readonly operand: Scalar }
  | { readonly operator: 'isNot'; readonly operand: Scalar }
  | { readonly operator: 'in'; readonly operand: readonly Scalar[] }
  | { readonly operator: OrderOperator; readonly operand: string | number }
  | { readonly operator: 'exists'; readonly operand: boolean };

/** Numbers compare with numbers, text with text. */
export type OrderOperator = 'gt' | 'gte' | 'lt' | 'lte';

/** The parts of a message that a filter can look into. */
export const MESSAGE_PARTS = ['properties', 'context', 'traits'] as const;

/** A place in a message. */
export interface FieldPlace {
  readonly part: (typeof MESSAGE_PARTS)[number];
  readonly path: KeyPath;
}

/** A place in a message, and tests that its value has to pass, all of them. */
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

/** Somebody did something from `least` to `most` times, both included; null for no upper limit. */
export interface Performed {
  readonly performed: Activity;
  readonly least: number;
  readonly most: number | null;
}

/** Somebody's trait, as the latest `identify` that has it says, passes all the tests. */
export interface TraitCondition {
  readonly trait: KeyPath;
  readonly tests: readonly Test[];
}

/** Somebody is in another audience at the same instant. */
interface InAudience {
  readonly inAudience: string;
}

/** The short definition of an audience (`when`), checked. */
export type Condition =
  | { readonly all: readonly Condition[] }
  | { readonly any: readonly Condition[] }
  | { readonly not: Condition }
  | Performed
  | TraitCondition
  | InAudience;

/** Operators on a property of somebody's events. */
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

/** Items of a `uniqueList` at most: the least ones. */
export const LONGEST_LIST = 1_000;

/** Keys of the audiences that a condition names. */
export function audiencesIn(condition: Condition): readonly string[] {
  if ('all' in condition) return condition.all.flatMap(audiencesIn);
  if ('any' in condition) return condition.any.flatMap(audiencesIn);
  if ('not' in condition) return audiencesIn(condition.not);
  return 'inAudience' in condition ? [condition.inAudience] : [];
}
