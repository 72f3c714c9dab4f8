import type { TraitValue } from '../../../src/definition/definition.ts';
import type { LiveAudience, LivePlanRow, LiveState } from '../../../src/store/live.ts';
import { valueText } from '../../live/stored-value.ts';
import type { Staged } from '../port.ts';

export interface LiveContext {
  readonly store: LiveState;
  /** Hash of an audience's live definition; null if it has none. */
  readonly hashOf: (key: string) => string | null;
  /** The value that a trait is defined by; null for an audience. */
  readonly definedValue: (key: string) => TraitValue | null;
  readonly kindOf: (key: string) => 'audience' | 'trait';
  /** The reason why a person must decide about the changes of a run first; null if nobody has to. */
  readonly whyHeld: (
    audience: LiveAudience,
    changes: Pick<Staged, 'entered' | 'exited' | 'changed'>,
  ) => Promise<string | null>;
  /** Number of ids that mean nobody and are left out of a computation. */
  readonly leftOut: (key: string) => Promise<number>;
  readonly now: () => number;
}

/** Rows read from the store, or written to it, at once. */
export const PAGE = 5_000;

/** A stored value as the port has it. */
export const shown = ({ kindOf }: Pick<LiveContext, 'kindOf'>, key: string, value: string | null): string | null =>
  valueText(kindOf(key), key, value);

/** The value in a plan, in which users who leave an audience have the last known columns. */
export function planned(live: LiveContext, key: string, { value, told }: Pick<LivePlanRow, 'value' | 'told'>) {
  return shown(live, key, live.kindOf(key) === 'audience' ? (value ?? told) : value);
}
