import type { GuardConfig, Threshold } from '../../src/config/config.ts';
import type { Staged } from '../engines/port.ts';

/** The reason why a plan needs approval (docs/audiences.md); null if it needs none. A first sync never does. */
export function holdReason(staged: Staged, guard: GuardConfig): string | null {
  const { before, members, entered, exited } = staged;
  if (before === 0) return null;
  if (members === 0 && !guard.allowEmpty) return `The result is empty; ${users(before)} would leave.`;
  if (before < guard.minMembers) return null;
  if (exceeds(exited, guard.maxExits, before)) return over(exited, before, 'leave', 'maxExits', guard.maxExits);
  if (exceeds(entered, guard.maxEntries, before)) return over(entered, before, 'enter', 'maxEntries', guard.maxEntries);
  return null;
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

export const users = (count: number) => `${count} ${count === 1 ? 'user' : 'users'}`;

/** A threshold as written in the configuration. */
export function shown(threshold: Threshold): string {
  return 'count' in threshold ? String(threshold.count) : `${threshold.percent}%`;
}

function over(count: number, before: number, verb: string, name: string, threshold: Threshold): string {
  return `${count} of ${users(before)} would ${verb}, more than ${name} (${shown(threshold)}) allows.`;
}
