import { DateTime } from 'luxon';
import cron, { type ScheduledTask } from 'node-cron';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
/** Time zones differ by whole quarters of an hour. */
const QUARTER = 15 * MINUTE;
/** Shorter than any day in any zone, so that a matching day shows at one end of a part. */
const PART = 24 * QUARTER;
const DAY = 24 * 60 * MINUTE;
/** Longer than the interval of any schedule, even for 29 February. */
const LONGEST_LOOK_BACK = 10 * 366 * DAY;

type Matcher = Pick<ScheduledTask, 'match'>;

/** The due times of a schedule by the calendar of its zone. Ticks in an hour that the clock repeats are due twice. */
export class Ticks {
  private readonly seconds: readonly number[];
  private readonly timezone: string | null;
  private readonly task: Matcher;
  /** Match instants whose day, or quarter of an hour, may have a tick. */
  private readonly day: Matcher;
  private readonly quarter: Matcher;

  constructor(schedule: string, timezone: string | null) {
    const [day = '*', month = '*', weekday = '*'] = schedule.trim().split(/\s+/).slice(-3);
    const hour = schedule.trim().split(/\s+/).at(-4) ?? '*';
    const matcher = (expression: string) => {
      const task = cron.createTask(expression, () => {}, timezone === null ? {} : { timezone });
      // It is never started, and node-cron keeps each task until it is destroyed.
      void task.destroy();
      return task;
    };
    this.timezone = timezone;
    this.seconds = cron.parse(schedule).second.toSorted((a, b) => b - a);
    this.task = matcher(schedule);
    this.day = matcher(`* * * ${day} ${month} ${weekday}`);
    this.quarter = matcher(`* * ${hour} ${day} ${month} ${weekday}`);
  }

  /** The last ticks after `from` and until `to`, the newest first, at most `limit`. */
  last(from: number, to: number, limit: number): readonly number[] {
    const start = Math.max(from, to - LONGEST_LOOK_BACK);
    const found: number[] = [];
    let ahead = true;
    for (let part = to - (to % PART); part + PART > start; part -= PART) {
      const here = this.day.match(new Date(part));
      if (here || ahead) this.inPart(part, start, to, limit, found);
      if (found.length === limit) return found;
      ahead = here;
    }
    return found;
  }

  /** The first tick after `from`, of which the library has `found`: of an hour that the clock repeats, the second. */
  next(from: number, found: number): number {
    for (const [start, end] of [
      [from, Math.min(found, from + DAY)],
      [Math.max(from, found - DAY), found],
    ] as const) {
      if (this.offset(start) <= this.offset(end)) continue;
      const first = this.last(start, end, Number.POSITIVE_INFINITY).at(-1);
      if (first !== undefined) return first;
    }
    return found;
  }

  private offset(at: number): number {
    return DateTime.fromMillis(at, { zone: this.timezone ?? 'system' }).offset;
  }

  private inPart(part: number, from: number, to: number, limit: number, found: number[]): void {
    for (let quarter = part + PART - QUARTER; quarter >= part; quarter -= QUARTER) {
      if (quarter > to || quarter + QUARTER <= from || !this.quarter.match(new Date(quarter))) continue;
      for (let minute = quarter + QUARTER - MINUTE; minute >= quarter; minute -= MINUTE) {
        for (const second of this.seconds) {
          const at = minute + second * SECOND;
          if (at <= from || at > to || !this.task.match(new Date(at))) continue;
          found.push(at);
          if (found.length === limit) return;
        }
      }
    }
  }
}
