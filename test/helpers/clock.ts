import { type Clock, systemClock } from '../../src/kernel/clock.ts';

interface Timer {
  readonly at: number;
  readonly ms: number;
  readonly callback: () => void;
}

/** Steady clocks have fractions of a millisecond, which no time of day has. Binary, so that sums are exact. */
const FRACTION = 0.375;

/** A clock that stands still until a test moves it; its ids are counted, and its chance is what the test says. */
export class ManualClock implements Clock {
  /** The answer of `random`. */
  chance = 0.5;
  private time: number;
  private elapsed = 0;
  private suspended = 0;
  private counter = 0;
  private readonly timers = new Set<Timer>();
  private watchers: { readonly ms: number; readonly count: number; readonly resolve: () => void }[] = [];

  private readonly start: number;

  constructor(start = Date.UTC(2026, 0, 1)) {
    this.start = start;
    this.time = start;
  }

  now(): number {
    return this.time;
  }

  monotonic(): number {
    return this.elapsed + FRACTION;
  }

  uptime(): number {
    return this.elapsed + this.suspended;
  }

  random(): number {
    return this.chance;
  }

  uuid(): string {
    this.counter += 1;
    return `00000000-0000-4000-8000-${String(this.counter).padStart(12, '0')}`;
  }

  token(bytes: number): string {
    this.counter += 1;
    return this.counter.toString(16).padStart(bytes * 2, '0');
  }

  after(ms: number, callback: () => void): () => void {
    const timer = { at: this.elapsed + ms, ms, callback };
    this.timers.add(timer);
    for (const watcher of this.watchers) if (this.count(watcher.ms) >= watcher.count) watcher.resolve();
    return () => void this.timers.delete(timer);
  }

  roughly(ms: number, callback: () => void): () => void {
    return this.after(ms, callback);
  }

  /** Resolves once `count` timers of this length are set. */
  async timer(ms: number, count = 1): Promise<void> {
    if (this.count(ms) >= count) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const watcher = { ms, count, resolve };
    this.watchers.push(watcher);
    await promise;
    this.watchers = this.watchers.filter((other) => other !== watcher);
  }

  /** Moves on by `ms`, calling what falls due in its order. */
  advance(ms: number): void {
    const end = this.elapsed + ms;
    for (;;) {
      const next = [...this.timers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
      if (!next) break;
      this.timers.delete(next);
      this.move(Math.max(0, next.at - this.elapsed));
      next.callback();
    }
    this.move(end - this.elapsed);
  }

  /** Moves on without any timer being called, as for a process that was stopped. */
  stall(ms: number): void {
    this.move(ms);
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return systemClock.sleep.call(this, ms, signal);
  }

  /** Suspends the machine: the steady clock stands still while time goes by. */
  suspend(ms: number): void {
    this.suspended += ms;
    this.time += ms;
  }

  /** The time of a clock that no one sets, such as a database's elsewhere. */
  get true(): number {
    return this.start + this.uptime();
  }

  /** Sets the calendar time only, as a time server does. */
  jump(ms: number): void {
    this.time += ms;
  }

  private move(ms: number): void {
    this.elapsed += ms;
    this.time += ms;
  }

  /** Milliseconds until the next timer is due among those of such lengths; infinite if none is set. */
  untilDue(isMeant: (ms: number) => boolean): number {
    const meant = [...this.timers].filter(({ ms }) => isMeant(ms));
    return Math.min(...meant.map(({ at }) => at)) - this.elapsed;
  }

  /** Timers of this length that are set. */
  count(ms: number): number {
    return [...this.timers].filter((timer) => timer.ms === ms).length;
  }
}
