import { sql } from '../sql.ts';
import type { Session } from './session.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const KEY = 'clocks';

/** A clock's time when it was last trusted, and since when it has been distrusted. */
interface Trust {
  readonly at: number;
  readonly doubtedSince: number | null;
}

interface Clocks {
  readonly wall: Trust;
  readonly store: Trust;
}

/** An apparent downtime may be a wrong clock: one more than a day ahead must stay so for a day to be trusted. */
export async function trustsClocks({ rows, run, time }: Session, wall: number): Promise<boolean> {
  const [[now = 0, text = null] = []] = await rows<[number, string | null]>(
    sql`SELECT ${time.now}, (SELECT value FROM rollcall.meta WHERE key = ${KEY})`,
  );
  const before = text === null ? null : (JSON.parse(text) as Clocks);
  const clocks: Clocks = { wall: seenAt(before?.wall, wall), store: seenAt(before?.store, now) };
  if (before === null || isNews(before.wall, clocks.wall) || isNews(before.store, clocks.store)) {
    await run(sql`INSERT INTO rollcall.meta (key, value) VALUES (${KEY}, ${JSON.stringify(clocks)})
      ON CONFLICT (key) DO UPDATE SET value = excluded.value`);
  }
  return clocks.wall.doubtedSince === null && clocks.store.doubtedSince === null;
}

function seenAt(before: Trust | undefined, now: number): Trust {
  if (before === undefined || now <= before.at + DAY) return { at: now, doubtedSince: null };
  const doubtedSince = Math.min(before.doubtedSince ?? now, now);
  return now - doubtedSince < DAY ? { at: before.at, doubtedSince } : { at: now, doubtedSince: null };
}

/** True if the change must be written: not on every call. */
function isNews(before: Trust, after: Trust): boolean {
  return before.doubtedSince !== after.doubtedSince || Math.abs(after.at - before.at) >= HOUR;
}
