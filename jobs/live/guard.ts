import type { LiveAudience, LiveState } from '../../src/store/live.ts';
import type { Computation } from '../audience-or-trait.ts';
import { exceeds, shown, users } from '../run/guard.ts';

/** Milliseconds over which changes are counted. */
const WINDOW = 3_600_000;

/** The reason that these changes, with those of the last hour, freeze an audience; null if they don't. */
export async function whyFrozen(
  live: Pick<LiveState, 'countChanges'>,
  { guard }: Computation,
  { key, members, judgedFrom }: LiveAudience,
  news: readonly { readonly current: string | null; readonly told: string | null }[],
  now: number,
): Promise<string | null> {
  const entering = news.filter(({ told }) => told === null).length;
  const leaving = news.filter(({ current }) => current === null).length;
  const after = members + entering - leaving;
  // An empty audience needs no guard. Without a minimum size the last member may leave.
  const mayBeEmpty = guard.allowEmpty || guard.minMembers === 0;
  if (guard.maxExits === null && guard.maxEntries === null && mayBeEmpty) return null;
  const counted = await live.countChanges(key, Math.max(now - WINDOW, judgedFrom), now);
  const [entered, exited] = [counted.entered + entering, counted.exited + leaving];
  const before = after - entered + exited;
  if (before === 0 || before < guard.minMembers) return null;
  if (after === 0 && leaving > 0 && !mayBeEmpty) return `The audience becomes empty; ${users(before)} would leave.`;
  if (exceeds(exited, guard.maxExits, before)) {
    return `${exited} of ${users(before)} leave within an hour, more than maxExits (${shown(guard.maxExits)}) allows.`;
  }
  if (exceeds(entered, guard.maxEntries, before)) {
    return `${entered} of ${users(before)} enter within an hour, more than maxEntries (${shown(guard.maxEntries)}) allows.`;
  }
  return null;
}
