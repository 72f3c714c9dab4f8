import cron, { type ScheduledTask } from 'node-cron';
import { type Clock, systemClock } from '../../src/kernel/clock.ts';
import type { Run } from '../../src/store/port.ts';
import { type Computation, computations, type SyncConfig } from '../audience-or-trait.ts';
import type { JobLog } from '../run/run-context.ts';
import { Ticks } from './due-times.ts';

const SECOND = 1_000;
/** The most that clocks of hosts differ. A run that began further ahead was begun before a clock was set back. */
const SKEW = 60 * SECOND;
/** Milliseconds until an audience that another process is syncing, or died syncing, is checked again. */
const LOOK_AGAIN = 10 * SECOND;
/** Milliseconds between checks for a set clock and for missed ticks. */
const WATCH_EVERY = 30 * SECOND;
/** Ticks this young may not have fired yet. */
const GRACE = 5 * SECOND;
/** The most that clocks drift apart; beyond it, one was set. */
const DRIFT = 2 * SECOND;

interface ScheduleOptions {
  readonly config: () => SyncConfig;
  readonly clock: Clock;
  readonly log: JobLog;
  readonly lastRunAt: (key: string) => Promise<number | null>;
  readonly unfinished: (key: string) => Promise<readonly Run[]>;
  /** The time of the next retry after a failure since a tick; null if none is due. */
  readonly nextTryAt: (key: string, tick: number) => Promise<number | null>;
  /** Runs one sync unless one began at the tick or since; resolves to false if another process is running it. */
  readonly run: (computation: Computation, tick: number) => Promise<boolean>;
  readonly overdue: (key: string, message: string) => void;
}

interface Schedules {
  /** Starts the configured schedules, and catches up missed ticks once. */
  start(): Promise<void>;
  stop(): void;
}

export function createSchedules(options: ScheduleOptions): Schedules {
  const { clock, config, log } = options;
  let started: Schedule[] = [];
  let cancelWatch = () => {};

  async function start(): Promise<void> {
    stop();
    started = computations(config())
      .filter(({ schedule, paused }) => schedule !== null && !paused)
      .map((computation) => new Schedule(computation, options));
    watch(clock.now(), clock.monotonic());
    await Promise.all(started.map((schedule) => schedule.start()));
  }

  function watch(time: number, steady: number): void {
    cancelWatch = clock.after(WATCH_EVERY, () => {
      const passed = clock.monotonic() - steady;
      // Timers of schedules wait for a time of day, which now is further away.
      if (clock.now() - time < passed - DRIFT) {
        log.warn({ event: 'clock_set_back' }, 'The clock was set back; restarting the schedules');
        void start().catch((error) => {
          log.warn({ err: error }, 'Could not start the schedules; retrying');
          watch(time, steady);
        });
        return;
      }
      for (const schedule of started) schedule.look();
      watch(clock.now(), clock.monotonic());
    });
  }

  function stop(): void {
    cancelWatch();
    for (const schedule of started) schedule.stop();
    started = [];
  }

  return { start, stop };
}

/** One audience's schedule: never two runs at once. Ticks during a run cause one more run after it. */
class Schedule {
  private readonly computation: Computation;
  private readonly options: ScheduleOptions;
  private readonly task: ScheduledTask;
  private readonly ticks: Ticks;
  /** The tick or start that the current sync serves. */
  private running: number | null = null;
  private again: number | null = null;
  private stopped = false;
  /** The last tick that fired. */
  private seen = 0;
  /** True once it was announced as overdue, until it has run again. */
  private announced = false;
  private cancelLook = () => {};

  constructor(computation: Computation, options: ScheduleOptions) {
    this.computation = computation;
    this.options = options;
    const { schedule, timezone } = computation;
    this.ticks = new Ticks(schedule ?? '', timezone);
    this.task = createTask(computation, (date) => this.onTick(date.getTime()), options.log);
    this.task.on('execution:missed', ({ date }) => this.onTick(date.getTime()));
  }

  async start(): Promise<void> {
    this.task.start();
    const now = this.options.clock.now();
    this.seen = now;
    const last = await this.lastRunAt(now);
    if (last !== null && this.missed(last, now) > 1) this.announceMissed(last);
    // The latest possible tick is the current second: a run begun since may be another process's for the same tick.
    const tick = now - (now % SECOND);
    if (await this.isDue(last, now)) void this.patiently(tick, (at) => this.runFor(at));
  }

  stop(): void {
    this.stopped = true;
    this.cancelLook();
    void this.task.destroy();
  }

  /** Runs a tick that the timer missed, such as one in an hour that the clock repeats. */
  look(): void {
    const [at] = this.ticks.last(this.seen, this.options.clock.now() - GRACE, 1);
    if (at !== undefined) void this.onTick(at);
  }

  private onTick(at: number): Promise<void> {
    this.seen = Math.max(this.seen, at);
    return this.patiently(at, () => this.tick(at));
  }

  private async isDue(last: number | null, now: number): Promise<boolean> {
    const { key } = this.computation;
    if (last === null || (await this.options.unfinished(key)).length > 0) return true;
    return this.missed(last, now) > 0 || (await this.options.nextTryAt(key, last)) !== null;
  }

  /** Null also for a run in the future, since which missed ticks can't be counted. */
  private async lastRunAt(now: number): Promise<number | null> {
    const last = await this.options.lastRunAt(this.computation.key);
    return last === null || isAhead(last, Math.max(now, this.options.clock.now())) ? null : last;
  }

  /** Counts up to two missed ticks. Two mean that one was missed by its interval. */
  private missed(last: number, now: number): number {
    return this.ticks.last(last, now, 2).length;
  }

  private announceMissed(last: number): void {
    const { key } = this.computation;
    this.announce(`${key} missed a tick by more than its interval; it last ran at ${new Date(last).toISOString()}.`);
  }

  private announce(message: string): void {
    if (this.announced) return;
    this.announced = true;
    this.options.overdue(this.computation.key, message);
  }

  /** Retries work that fails: while the store is away, it is unknown whether a tick was served. */
  private async patiently(at: number, work: (at: number) => Promise<void>): Promise<void> {
    try {
      await work(at);
    } catch (error) {
      this.options.log.warn({ err: error, key: this.computation.key }, 'Could not schedule the next run; retrying');
      if (!this.stopped) this.lookAgain(at, LOOK_AGAIN);
    }
  }

  private async tick(at: number): Promise<void> {
    const { key } = this.computation;
    const last = await this.lastRunAt(at);
    // The tick may have been served already, by another process or earlier by this one.
    if (last !== null && last >= at) return this.running === null ? this.followUp(at) : undefined;
    if (this.running === null) return this.runFor(at);
    this.again = at;
    // A sync that began between two ticks, at a start, has not run for an interval yet.
    if (this.missed(this.running - 1, at) > 1) this.announce(`${key} is due again while its last sync still runs.`);
  }

  private async runFor(at: number): Promise<void> {
    if (this.running !== null || this.stopped) return;
    this.running = at;
    this.again = null;
    this.cancelLook();
    const begun = await this.options.run(this.computation, at).catch((error) => {
      this.options.log.error({ err: error, key: this.computation.key }, 'Could not run the scheduled sync');
      return true;
    });
    this.running = null;
    if (this.stopped) return;
    if (begun) {
      this.announced = false;
      if (this.again !== null) return this.runFor(this.again);
      return this.followUp(at);
    }
    this.lookAgain(at, LOOK_AGAIN);
    const last = await this.lastRunAt(at);
    if (last !== null && this.missed(last, at) > 1) this.announceMissed(last);
  }

  /** Schedules a retry of a run that failed, in any process, unless the next tick comes first. */
  private async followUp(at: number): Promise<void> {
    const { nextTryAt, clock } = this.options;
    const next = await nextTryAt(this.computation.key, at);
    if (next !== null && !this.stopped) this.lookAgain(at, Math.max(SECOND, next - clock.now()), true);
  }

  private lookAgain(at: number, wait: number, isTry = false): void {
    const { clock, unfinished } = this.options;
    this.cancelLook();
    const look = async () => {
      if (isTry || (await unfinished(this.computation.key)).length > 0) await this.runFor(at);
      else await this.tick(at);
    };
    this.cancelLook = clock.after(wait, () => void this.patiently(at, look));
  }
}

/** True if a run seems to have begun in the future: the clock was set back. */
export const isAhead = (last: number, now: number) => last > now + SKEW;

function createTask({ key, schedule, timezone }: Computation, tick: (date: Date) => Promise<void>, log: JobLog) {
  return cron.createTask(schedule ?? '', ({ date }) => tick(date), {
    name: key,
    ...(timezone === null ? {} : { timezone }),
    suppressMissedWarning: true,
    logger: {
      info: () => {},
      debug: () => {},
      warn: (message) => log.warn({ key }, message),
      error: (message, error) => log.error({ key, err: error ?? message }, 'The cron library failed'),
    },
  });
}

/** The next time at which an audience is due, in milliseconds since 1970. */
export function nextTick(computation: Computation, log: JobLog): number | null {
  const { schedule, timezone } = computation;
  const task = createTask(computation, async () => {}, log);
  const [next] = task.getNextRuns(1);
  void task.destroy();
  return next ? new Ticks(schedule ?? '', timezone).next(systemClock.now(), next.getTime()) : null;
}
