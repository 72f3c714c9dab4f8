import type { Staged } from '../engines/port.ts';
import { disbelief } from './expect.ts';
import { holdReason } from './guard.ts';
import type { SubjectDefinition } from './run-context.ts';

/**
 * Why a person has to look at what was computed before it is sent: it is not to be believed, or changes too much. Null where
 * nobody has to.
 *
 * @param counts - without users who are kept out
 * @param asOf - the run's time, milliseconds since 1970
 */
export function whyHeld(
  returned: Staged,
  counts: Staged,
  { expect, guard }: Pick<SubjectDefinition, 'expect' | 'guard'>,
  asOf: number,
): string | null {
  return disbelief(returned, counts, expect, asOf) ?? holdReason(counts, guard);
}
