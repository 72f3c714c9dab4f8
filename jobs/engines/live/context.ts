import type { TraitValue } from '../../../src/definition/definition.ts';
import type { LiveState } from '../../../src/store/live.ts';

/** The store that keeps live membership, and the definitions as they are configured now. */
export interface LiveContext {
  readonly store: LiveState;
  /** Hash of an audience's live definition; null where it has none. */
  readonly hashOf: (key: string) => string | null;
  /** The value that a trait is defined by; null for an audience. */
  readonly definedValue: (key: string) => TraitValue | null;
  readonly kindOf: (key: string) => 'audience' | 'trait';
  readonly now: () => number;
}

/** Rows that are read from the store, or written there, at once. */
export const PAGE = 5_000;

/** A kept value as the port has it: the traits object as JSON text; null for audiences and for users who are gone. */
export function shown({ kindOf }: Pick<LiveContext, 'kindOf'>, key: string, value: string | null): string | null {
  return value === null || kindOf(key) === 'audience' ? null : `{${JSON.stringify(key)}:${value}}`;
}
