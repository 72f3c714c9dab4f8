import type { AudienceRecord, Run } from '../../src/store/port.ts';
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
  { expect, guard, distrust }: Pick<SubjectDefinition, 'expect' | 'guard' | 'distrust'>,
  asOf: number,
): string | null {
  return distrust ?? disbelief(returned, counts, expect, asOf) ?? holdReason(counts, guard);
}

/** A trait gets a column or loses one because its source did, although nobody edited the definition. Null if not. */
export function columnsChanged(
  { kind, first, isEdited }: Pick<Run, 'kind' | 'first' | 'isEdited'>,
  columns: readonly string[],
  before: AudienceRecord,
): string | null {
  if (kind === 'audience' || first || isEdited) return null;
  const added = columns.filter((name) => !before.columns.includes(name));
  const gone = before.columns.filter((name) => !columns.includes(name));
  if (added.length + gone.length === 0) return null;
  const parts = [
    ...(added.length > 0 ? [`new: ${added.join(', ')}`] : []),
    ...(gone.length > 0 ? [`gone: ${gone.join(', ')}`] : []),
  ];
  return `Its columns changed although its definition did not (${parts.join('; ')}). Name the columns in the SQL to keep others out.`;
}
