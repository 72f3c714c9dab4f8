import cron, { type ScheduledTask } from 'node-cron';
import type { Clock } from '../src/clock.ts';
import type { Run } from '../src/store/port.ts';
import { type Computation, computations, type SyncConfig } from './computation.ts';
import type { Log } from './context.ts';

const MINUTE = 60_000;
/** Clocks of hosts differ by no more; a run that seems to begin later was begun by a clock that has been set back since. */
const SKEW = MINUTE;
/** A run last seen longer ago than this has surely missed a tick. */
const LONGEST_LOOK_BACK = 31 * 24 * 60 * MINUTE;
/** When to look again at an audience that another process is syncing, or was when it died. */
const LOOK_AGAIN = 10_000;

export interface ScheduleOptions {
  readonly config: () => SyncConfig;
  readonly clock: Clock;
  readonly log: Log;
  readonly lastRunAt: (key: string) => Promise<number | null>;
  readonly unfinished: (key: string) => Promise<readonly Run[]>;
  /** Runs one sync unless one began at the tick or since; resolves to false when another process is at it. */
  readonly run: (computation: Computation, tick: number) => Promise<boolean>;
  readonly overdue: (key: string, message: string) => Promise<void>;
}

export interface Schedules {
  /** Starts what the configuration has by now, and catches up what was missed, once. */
  start(): Promise<void>;
  stop(): void;
}

export function createSchedules(options: ScheduleOptions): Schedules {
  let started: Schedule[] = [];
  const stop = () => {
    for (const schedule of started) schedule.stop();
    started = [];
  };
  return {
    async start() {
      stop();
      started = computations(options.config())
        .filter(({ schedule, paused }) => schedule !== null && !paused)
        .map((computation) => new Schedule(computation, options));
      await Promise.all(started.map((schedule) => schedule.start()));
    },
    stop,
  };
}

/** One audience's ticks: never two runs at once, and ticks that come during a run make one more run after it. */
class Schedule {
  readonly #computation: Computation;
  readonly #options: ScheduleOptions;
  readonly #task: ScheduledTask;
  #running = false;
  #again: number | null = null;
  #stopped = false;
  /** The last tick that people were told of as missed. */
  #announced = 0;
  #cancelLook = () => {};

  constructor(computation: Computation, options: ScheduleOptions) {
    this.#computation = computation;
    this.#options = options;
    this.#task = createTask(
      computation,
      (date) => this.#patiently(date.getTime(), (at) => this.#tick(at)),
      options.log,
    );
    this.#task.on('execution:missed', ({ date }) => this.#patiently(date.getTime(), (at) => this.#tick(at)));
  }

  async start(): Promise<void> {
    this.#task.start();
    const now = this.#options.clock.now();
    const last = await this.#lastRunAt(now);
    if (last !== null && this.#missedSince(last, now) > 1) await this.#announceMissed(last, now);
    // No tick is later than the second that has begun: a run begun since may be another process's for the same tick.
    const tick = now - (now % 1_000);
    if (await this.#isDue(last, now)) void this.#patiently(tick, (at) => this.#runFor(at));
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelLook();
    void this.#task.destroy();
  }

  async #isDue(last: number | null, now: number): Promise<boolean> {
    if (last === null || (await this.#options.unfinished(this.#computation.key)).length > 0) return true;
    return this.#missedSince(last, now) > 0;
  }

  /** Null also for a run in the future: nobody can say what was missed since. */
  async #lastRunAt(now: number): Promise<number | null> {
    const last = await this.#options.lastRunAt(this.#computation.key);
    return last === null || isAhead(last, Math.max(now, this.#options.clock.now())) ? null : last;
  }

  #missedSince(last: number, now: number): number {
    return missedTicks(this.#task, cron.parse(this.#computation.schedule ?? '').second, last, now);
  }

  async #announceMissed(last: number, at: number): Promise<void> {
    if (at === this.#announced) return;
    this.#announced = at;
    const { key } = this.#computation;
    await this.#options.overdue(
      key,
      `${key} missed a tick by more than its interval; it last ran at ${new Date(last).toISOString()}.`,
    );
  }

  /** While the store is away nobody knows whether a tick was served: it is looked at again. */
  async #patiently(at: number, work: (at: number) => Promise<void>): Promise<void> {
    try {
      await work(at);
    } catch (error) {
      this.#options.log.warn({ err: error, key: this.#computation.key }, 'the schedule can not go on; trying again');
      if (!this.#stopped) this.#lookAgain(at);
    }
  }

  async #tick(at: number): Promise<void> {
    const { key } = this.#computation;
    const last = await this.#lastRunAt(at);
    // Another process may have served this tick already; or this one, if it is looked at again.
    if (last !== null && last >= at) return;
    if (!this.#running) return this.#runFor(at);
    this.#again = at;
    await this.#options.overdue(key, `${key} is due again while its last sync still runs.`);
  }

  async #runFor(at: number): Promise<void> {
    if (this.#running || this.#stopped) return;
    this.#running = true;
    this.#again = null;
    const begun = await this.#options.run(this.#computation, at).catch((error) => {
      this.#options.log.error({ err: error, key: this.#computation.key }, 'the scheduled sync could not be run');
      return true;
    });
    this.#running = false;
    if (this.#stopped) return;
    if (begun) {
      if (this.#again !== null) await this.#runFor(this.#again);
      return;
    }
    this.#lookAgain(at);
    const last = await this.#lastRunAt(at);
    if (last !== null && this.#missedSince(last, at) > 1) await this.#announceMissed(last, at);
  }

  #lookAgain(at: number): void {
    const { clock, unfinished } = this.#options;
    this.#cancelLook();
    const look = async () => {
      if ((await unfinished(this.#computation.key)).length > 0) await this.#runFor(at);
      else await this.#tick(at);
    };
    this.#cancelLook = clock.after(LOOK_AGAIN, () => void this.#patiently(at, look));
  }
}

/** Whether a run began in what is the future now: the clock was set back. */
export const isAhead = (last: number, now: number) => last > now + SKEW;

function createTask({ key, schedule, timezone }: Computation, tick: (date: Date) => Promise<void>, log: Log) {
  return cron.createTask(schedule ?? '', ({ date }) => tick(date), {
    name: key,
    ...(timezone === null ? {} : { timezone }),
    suppressMissedWarning: true,
    logger: {
      info: () => {},
      debug: () => {},
      warn: (message) => log.warn({ key }, message),
      error: (message, error) => log.error({ key, err: error ?? message }, 'node-cron failed'),
    },
  });
}

/** When an audience is due next, in milliseconds since 1970. */
export function nextTick(computation: Computation, log: Log): number | null {
  const task = createTask(computation, async () => {}, log);
  const [next] = task.getNextRuns(1);
  void task.destroy();
  return next?.getTime() ?? null;
}

/** How many ticks the schedule had after `last` and until `now`, as far as two, which is one missed by its interval. */
export function missedTicks(
  task: Pick<ScheduledTask, 'match'>,
  seconds: readonly number[],
  last: number,
  now: number,
): number {
  const isLongAgo = now - last > LONGEST_LOOK_BACK;
  const from = isLongAgo ? now - LONGEST_LOOK_BACK : last;
  let ticks = 0;
  for (let minute = from - (from % MINUTE); minute <= now; minute += MINUTE) {
    for (const second of seconds) {
      const at = minute + second * 1000;
      if (at > from && at <= now && task.match(new Date(at))) ticks += 1;
      if (ticks === 2) return ticks;
    }
  }
  return isLongAgo ? 1 : ticks;
}
