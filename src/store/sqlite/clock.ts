import type { Clock } from '../../kernel/clock.ts';
import { SERVED_GAP } from '../port.ts';
import { UPTIME_STEP } from '../steadied-time.ts';
import type { Connection } from './connection.ts';

/** The clocks of a delivering process, reported with each heartbeat. */
export interface ClockReading {
  /** Milliseconds to add to its wall clock. */
  readonly offset: number;
  /** Milliseconds since the machine booted. */
  readonly uptime: number;
}

/** The clock as stored, for processes that start. */
interface KeptClock extends ClockReading {
  /** Store time of the write. */
  readonly at: number;
  readonly servedSince: number;
}

export interface StartTime {
  readonly kept: KeptClock | null;
  /** True if a process on this machine is delivering from the file. */
  readonly isServed: boolean;
  /** The newest time stored in the file; 0 in a new one. */
  readonly newest: number;
}

const KEY = 'clock';

export function keepClock(db: Connection, now: number, { offset, uptime }: ClockReading): void {
  const before = keptClock(db);
  const isGap = before === null || now - before.at > SERVED_GAP;
  const servedSince = isGap ? now : before.servedSince;
  db.setMeta(KEY, JSON.stringify({ at: now, offset, uptime, servedSince } satisfies KeptClock));
}

export function servedSince(db: Connection, now: number): number {
  return keptClock(db)?.servedSince ?? now;
}

function keptClock(db: Connection): KeptClock | null {
  const text = db.meta(KEY);
  return text === null ? null : (JSON.parse(text) as KeptClock);
}

export function startTime(db: Connection): StartTime {
  const kept = keptClock(db);
  const isServed = db
    .all<{ holder: string }>('SELECT holder FROM owner')
    .some(({ holder }) => !db.holders.hasExited(holder));
  const written = db.get<{ at: number | null }>(
    `SELECT max(at) AS at FROM (
       SELECT * FROM (SELECT at FROM seen_log ORDER BY id DESC LIMIT 1)
       UNION ALL SELECT * FROM (SELECT at FROM seen_bucket ORDER BY id DESC LIMIT 1)
       UNION ALL SELECT * FROM (SELECT at FROM attempt ORDER BY id DESC LIMIT 1)
       UNION ALL SELECT * FROM (SELECT accepted_at FROM delivery ORDER BY id DESC LIMIT 1))`,
  );
  return { kept, isServed, newest: Math.max(written?.at ?? 0, kept?.at ?? 0) };
}

/** The longest pause between two heartbeats of a running process, in milliseconds. */
const SILENCE = 15_000;

/**
 * Return the offset to add to the wall clock, so that no stored time lies in the future. Prefer the smallest that does
 * it: an apparent downtime may be a step of the clock, and too early a time only delays deliveries.
 */
export function startOffset(clock: Clock, { kept, isServed, newest }: StartTime): number {
  const wall = clock.now();
  const since = kept === null ? Number.NaN : clock.uptime() - kept.uptime;
  // While another process delivers, its time counts, however this process's clock is set.
  const isBeside = kept !== null && isServed && since >= 0 && since <= SILENCE;
  const times = isBeside ? [besideTime(kept, since, wall)] : [wall + (kept?.offset ?? 0), wall];
  const time = times.filter((each) => each >= newest).sort((a, b) => a - b)[0] ?? newest;
  return Math.round(time - wall);
}

/** Use the wall clock, which is finer, unless it was stepped since or differs from the other process's clock. */
function besideTime({ at, offset }: KeptClock, since: number, wall: number): number {
  return Math.abs(wall + offset - (at + since)) <= UPTIME_STEP ? wall + offset : at + since;
}
