import type { TraitValue } from '../../../src/definition/definition.ts';
import type { LiveAudience, LiveState } from '../../../src/store/live.ts';
import type { Staged } from '../port.ts';

export interface LiveContext {
  readonly store: LiveState;
  /** Hash of an audience's live definition; null if it has none. */
  readonly hashOf: (key: string) => string | null;
  /** The value that a trait is defined by; null for an audience. */
  readonly definedValue: (key: string) => TraitValue | null;
  readonly kindOf: (key: string) => 'audience' | 'trait';
  /** The reason why a person must decide about the changes of a run first; null if nobody has to. */
  readonly whyHeld: (audience: LiveAudience, changes: Pick<Staged, 'entered' | 'exited'>) => Promise<string | null>;
  /** Number of ids that mean nobody and are left out of a computation. */
  readonly leftOut: (key: string) => Promise<number>;
  readonly now: () => number;
}

/** Rows read from the store, or written to it, at once. */
export const PAGE = 5_000;

/** A stored value as the port has it: JSON text of the traits object; null for audiences and for users who left. */
export function shown({ kindOf }: Pick<LiveContext, 'kindOf'>, key: string, value: string | null): string | null {
  return value === null || kindOf(key) === 'audience' ? null : `{${JSON.stringify(key)}:${value}}`;
}
