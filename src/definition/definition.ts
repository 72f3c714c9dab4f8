import type { Test } from './operators.ts';
import type { FieldPlace } from './places.ts';

/** A place in a message, and the tests that its value must all pass. */
export interface PlaceFilter extends FieldPlace {
  readonly tests: readonly Test[];
}

/** Kinds of messages that are activity. */
export const ACTIVITY_KINDS = ['track', 'page', 'screen'] as const;

/** Messages of one kind, in a window of time. */
export interface Activity {
  readonly kind: (typeof ACTIVITY_KINDS)[number];
  /** Names of track events, pages or screens; null for any, also none. */
  readonly names: readonly string[] | null;
  /** Only messages less than this before now count, in milliseconds; null for no such limit. */
  readonly within: number | null;
  /** Only messages at least this long before now count, in milliseconds. */
  readonly until: number;
  /** Only messages at or after this instant count, in milliseconds since 1970; null for no such limit. */
  readonly since: number | null;
  readonly where: readonly PlaceFilter[];
}

/** A step of a sequence. */
export interface SequenceStep {
  readonly activity: Activity;
  /** Milliseconds since the step before, both included; null for no limit. */
  readonly atLeast: number;
  readonly atMost: number | null;
}

/** Steps of different messages, one after another. */
export interface Sequence {
  readonly steps: readonly SequenceStep[];
  /** A message that must not follow the last step within `atMost` milliseconds; null for none. */
  readonly not: { readonly activity: Activity; readonly atMost: number } | null;
}

/** A share of all people by a hash of their ids: buckets from `from` up to `to`, in hundredths of a percent. */
export interface Split {
  readonly name: string;
  readonly from: number;
  readonly to: number;
}

/** A value of a computed trait, or a column of an audience, as last committed. */
export interface ComputedPlace {
  readonly key: string;
  readonly column: string;
  /** The definition of a live trait, whose value is that of the same instant. */
  readonly live?: { readonly value: TraitValue; readonly allowPlaceholders: boolean };
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
