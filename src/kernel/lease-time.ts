import type { Clock } from './clock.ts';

export interface ClockReadings {
  readonly steady: number;
  readonly wall: number;
  readonly uptime: number;
}

export function momentOf(clock: Clock): ClockReadings {
  return { steady: clock.monotonic(), wall: clock.now(), uptime: clock.uptime() };
}

/** Milliseconds that a reading of the uptime is used: it costs ten times as much as all other clocks together. */
const READING = 10;

/**
 * The time that a lease is certainly held: until the first clock says that it may be over. The steady clock of Linux
 * stands still while the machine is suspended, and the wall clock may be set back.
 */
export class LeaseTime {
  private readonly clock: Clock;
  private until: ClockReadings = { steady: 0, wall: 0, uptime: 0 };
  private uptime = 0;
  private readAt = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** @param asked - readings from before the store was asked */
  extend({ steady, wall, uptime }: ClockReadings, ttl: number): void {
    this.until = { steady: steady + ttl, wall: wall + ttl, uptime: uptime + ttl };
  }

  end(): void {
    this.until = { steady: 0, wall: 0, uptime: 0 };
  }

  /** Milliseconds left for certain. */
  get left(): number {
    const { clock, until } = this;
    const steady = clock.monotonic();
    if (steady - this.readAt >= READING) {
      this.uptime = clock.uptime();
      this.readAt = steady;
    }
    return Math.min(until.steady - steady, until.wall - clock.now(), until.uptime - this.uptime);
  }

  /** Like `left`, by the steady clock alone. If it is more, a clock was set or the machine was suspended. */
  get leftBySteadyClock(): number {
    return this.until.steady - this.clock.monotonic();
  }
}
