import type { GuardConfig } from '../../src/config/config.ts';
import type { Threshold } from '../../src/config/formats.ts';
import type { Staged } from '../engines/port.ts';

/** The reason why a plan needs approval (docs/audiences.md); null if it needs none. A first sync never does. */
export function holdReason(staged: Staged, guard: GuardConfig): string | null {
  const { before, members, entered, exited, changed } = staged;
  if (before === 0) return null;
  if (members === 0 && !guard.allowEmpty) return isEmptied('The result is empty', before);
  if (before < guard.minMembers) return null;
  if (exceeds(exited, guard.maxExits, before)) return over(guard, 'maxExits', exited, before, 'would leave');
  if (exceeds(entered, guard.maxEntries, before)) return over(guard, 'maxEntries', entered, before, 'would enter');
  if (exceeds(changed, guard.maxChanges, before)) return over(guard, 'maxChanges', changed, before, 'would change');
  return null;
}

/** A withdrawal of this many members needs approval, as a rename does. */
const MANY = 100;

/** The reason why a withdrawal from a destination needs approval; null if it needs none. */
export function withdrawalReason(destination: string, { total }: Staged): string | null {
  if (total < MANY) return null;
  return `${destination} no longer takes it: ${users(total)} would leave there.`;
}

/** The counts as if the audience had kept its name. */
export function asRename<Counts extends Staged>(staged: Counts, before: number): Counts {
  const growth = staged.members - before;
  return { ...staged, before, entered: Math.max(0, growth), exited: Math.max(0, -growth) };
}

/** A rename ends one audience and fills another, so it needs approval; null if the former one is empty. */
export function renameReason(former: string, before: number, { members }: Staged): string | null {
  if (before === 0) return null;
  return `It was ${former} until now: ${users(before)} would leave ${former}, and ${members} enter the new name.`;
}

export function exceeds(count: number, threshold: Threshold | null, before: number): threshold is Threshold {
  if (threshold === null) return false;
  return 'count' in threshold ? count > threshold.count : count * 100 > threshold.percent * before;
}

const users = (count: number) => `${count} ${count === 1 ? 'user' : 'users'}`;

/** A threshold as written in the configuration. */
export function shown(threshold: Threshold): string {
  return 'count' in threshold ? String(threshold.count) : `${threshold.percent}%`;
}

/** The reason of a hold. It names the setting that would have let the run through. */
export function over(
  guard: GuardConfig,
  name: 'maxExits' | 'maxEntries' | 'maxChanges',
  count: number,
  before: number,
  happens: string,
): string {
  const threshold = guard[name];
  const limit = threshold === null ? '' : ` (${shown(threshold)}${guard.isDefault ? ' unless set' : ''})`;
  return `${count} of ${users(before)} ${happens}, more than ${name}${limit} allows.`;
}

export function isEmptied(what: string, before: number): string {
  return `${what}; ${users(before)} would leave. allowEmpty lets that through.`;
}
