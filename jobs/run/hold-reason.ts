import type { Staged } from '../engines/port.ts';
import { disbelief } from './expect.ts';
import { holdReason } from './guard.ts';
import type { SubjectDefinition } from './run-context.ts';

/**
 * The reason why a result needs approval before it is sent: it is not credible, or changes too much. Null if none.
 *
 * @param counts - without excluded users
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
