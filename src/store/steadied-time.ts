import type { Clock } from '../kernel/clock.ts';
import { type ClockReadings, momentOf } from '../kernel/lease-time.ts';
import type { StoreTime } from './port.ts';

/** Largest difference between wall and steady clock since their last comparison, in milliseconds; more is a step. */
const STEP = 500;
/** As `STEP`, against the uptime, which some systems report in whole seconds. */
export const UPTIME_STEP = 1_500;
/** Interval of comparisons without a step, in milliseconds: a deviation over hours is drift. */
const COMPARE_EVERY = 1_000;
/** Largest distance between clock readings that belong together, in milliseconds. */
const AT_ONCE = 20;
const READINGS = 5;

/**
 * The wall clock plus an offset that undoes every step of the wall clock while this process runs. A suspension is no
 * step: time has passed, as the uptime shows, and only the steady clock stood still.
 */
export class SteadiedTime implements StoreTime {
  /** Milliseconds to add to the wall clock; an integer. */
  offset: number;
  private readonly clock: Clock;
  private compared: ClockReadings;

  constructor(clock: Clock, offset = 0) {
    this.clock = clock;
    this.offset = offset;
    this.compared = readAtOnce(clock);
  }

  now(): number {
    const { clock, compared } = this;
    const wall = clock.now();
    const steady = clock.monotonic() - compared.steady;
    const apart = wall - compared.wall - steady;
    if (apart <= STEP && apart >= -STEP && steady < COMPARE_EVERY) return wall + this.offset;
    return this.compare();
  }

  toWall(time: number): number {
    this.now();
    return time - this.offset;
  }

  fromWall(time: number): number {
    this.now();
    return time + this.offset;
  }

  private compare(): number {
    const { compared } = this;
    const moment = readAtOnce(this.clock);
    const wall = moment.wall - compared.wall;
    const steady = moment.steady - compared.steady;
    const uptime = moment.uptime - compared.uptime;
    const agrees = Math.abs(wall - steady) <= STEP || Math.abs(wall - uptime) <= UPTIME_STEP;
    if (!agrees) this.offset += Math.round(Math.max(steady, uptime) - wall);
    this.compared = moment;
    return moment.wall + this.offset;
  }
}

/** Repeats readings, since a process may be stopped between two of them. */
function readAtOnce(clock: Clock): ClockReadings {
  let moment = momentOf(clock);
  for (let reading = 1; clock.monotonic() - moment.steady > AT_ONCE && reading < READINGS; reading += 1) {
    moment = momentOf(clock);
  }
  return moment;
}
