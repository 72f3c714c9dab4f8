import type { ClientClock } from '../../src/client/clock.ts';

interface Timer {
  at: number;
  ms: number;
  callback: () => void;
}

/** A clock that moves only when told. Its random numbers are all 0.5. */
export class ManualClock implements ClientClock {
  private time = Date.parse('2026-01-02T03:04:05.678Z');
  private timers: Timer[] = [];
  private uuids = 0;
  private watchers: { wanted: (ms: number) => boolean; resolve: (ms: number) => void }[] = [];

  now(): number {
    return this.time;
  }

  random(): number {
    return 0.5;
  }

  uuid(): string {
    return `id-${this.uuids++}`;
  }

  after(ms: number, callback: () => void): () => void {
    const timer = { at: this.time + ms, ms, callback };
    this.timers.push(timer);
    for (const watcher of this.watchers.filter(({ wanted }) => wanted(ms))) {
      this.watchers = this.watchers.filter((other) => other !== watcher);
      watcher.resolve(ms);
    }
    return () => {
      this.timers = this.timers.filter((other) => other !== timer);
    };
  }

  /** The length of the first timer that fits, set already or once it is. */
  timer(wanted: (ms: number) => boolean): Promise<number> {
    const set = this.timers.find(({ ms }) => wanted(ms));
    if (set) return Promise.resolve(set.ms);
    return new Promise((resolve) => this.watchers.push({ wanted, resolve }));
  }

  /** Moves on by `ms`, calling what falls due in its order. */
  advance(ms: number): void {
    const end = this.time + ms;
    for (;;) {
      const [next] = this.timers.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
      if (!next) break;
      this.timers = this.timers.filter((timer) => timer !== next);
      this.time = next.at;
      next.callback();
    }
    this.time = end;
  }
}
