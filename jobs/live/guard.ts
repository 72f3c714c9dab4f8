import type { GuardConfig } from '../../src/config/config.ts';
import type { LiveAudience, LiveState } from '../../src/store/live.ts';
import type { Staged } from '../engines/port.ts';
import { exceeds, isEmptied, over } from '../run/guard.ts';

/** Milliseconds over which changes are counted. */
const WINDOW = 3_600_000;

/** The reason that these changes, with those of the last hour, freeze an audience; null if they don't. */
export async function whyFrozen(
  live: Pick<LiveState, 'countChanges'>,
  guard: GuardConfig,
  { key, members, judgedFrom }: LiveAudience,
  { entered, exited, changed }: Pick<Staged, 'entered' | 'exited' | 'changed'>,
  now: number,
): Promise<string | null> {
  const after = members + entered - exited;
  // An empty audience needs no guard. Without a minimum size the last member may leave.
  const mayBeEmpty = guard.allowEmpty || guard.minMembers === 0;
  const limits = [guard.maxExits, guard.maxEntries, guard.maxChanges];
  if (limits.every((limit) => limit === null) && mayBeEmpty) return null;
  const counted = await live.countChanges(key, Math.max(now - WINDOW, judgedFrom), now);
  // Exits are measured against the greatest size, so that one that fills and empties again is guarded too.
  const greatest = members + counted.more;
  const before = members - counted.entered + counted.exited;
  if (greatest > 0 && greatest >= guard.minMembers) {
    if (after === 0 && exited > 0 && !mayBeEmpty) return isEmptied('The audience becomes empty', greatest);
    const leaving = counted.exited + exited;
    if (exceeds(leaving, guard.maxExits, greatest))
      return over(guard, 'maxExits', leaving, greatest, 'leave within an hour');
    const changing = counted.changed + changed;
    if (exceeds(changing, guard.maxChanges, greatest))
      return over(guard, 'maxChanges', changing, greatest, 'change within an hour');
  }
  if (before > 0 && before >= guard.minMembers) {
    const entering = counted.entered + entered;
    if (exceeds(entering, guard.maxEntries, before))
      return over(guard, 'maxEntries', entering, before, 'enter within an hour');
  }
  return null;
}
