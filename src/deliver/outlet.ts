import type { Clock } from '../clock.ts';
import type { Exchange } from './exchange.ts';
import type { PreparedEndpoint } from './request.ts';
import type { SkipCause } from './verdict.ts';
import type { Window } from './window.ts';

/** How long a delivery is put off that waits for a paused endpoint only, in milliseconds. */
const PAUSED_DELAY = 60_000;

/** An endpoint with its window and the attempts that wait for room in it. */
export class Outlet {
  prepared: PreparedEndpoint;
  readonly window: Window;
  /** When this process's last attempt ended, in the store's time. */
  triedAt: number | null = null;
  private readonly clock: Clock;
  /** Called with whether a place was kept for the one who waits. */
  private readonly queue: ((hasPlace: boolean) => void)[] = [];

  constructor(prepared: PreparedEndpoint, window: Window, clock: Clock) {
    this.prepared = prepared;
    this.window = window;
    this.clock = clock;
  }

  get id(): string {
    return this.prepared.endpoint.id;
  }

  /** Attempts that wait for room. */
  get waiting(): number {
    return this.queue.length;
  }

  get hasRoom(): boolean {
    return this.window.free(this.clock.monotonic()) > 0;
  }

  /** Takes a place in the window if there is one at once. */
  tryEnter(): boolean {
    if (!this.hasRoom) return false;
    this.window.inFlight += 1;
    return true;
  }

  /** Takes a place in the window, for which it waits while the endpoint is merely busy; else says why there is none. */
  async enter(mayPost: () => boolean): Promise<SkipCause | null> {
    while (mayPost()) {
      if (this.tryEnter()) return null;
      if (this.window.pausedAt !== null) return 'paused';
      if (this.window.deadSince !== null) return 'dead';
      const hasPlace = await new Promise<boolean>((resolve) => this.queue.push(resolve));
      if (hasPlace && mayPost()) return null;
      if (hasPlace) this.window.inFlight -= 1;
    }
    this.handOn();
    return 'cut';
  }

  /** Gives the place back; true when the endpoint died, came back, or was paused by it. */
  leave(exchange: Exchange): boolean {
    const { window, clock } = this;
    const { pausedAt, deadSince } = window;
    this.triedAt = clock.now();
    const isHealthy = exchange.outcome === 'success' || exchange.outcome === 'refused';
    if (isHealthy) window.succeeded(exchange.ms);
    else window.failed(exchange.startedAt, clock.monotonic(), exchange.status !== null, clock.random(), clock.now());
    if (exchange.status === 410) window.pause(clock.now());
    if (!window.open) this.wakeAll();
    this.handOn();
    return window.pausedAt !== pausedAt || window.deadSince !== deadSince;
  }

  /** Gives the place back of an attempt that was not made. */
  withdraw(): void {
    this.window.inFlight -= 1;
    this.handOn();
  }

  /** Has those who wait look again. */
  wakeAll(): void {
    for (const resolve of this.queue.splice(0)) resolve(false);
  }

  /** When an attempt that finds no room should come again. */
  get nextChance(): number {
    const { window, clock } = this;
    return clock.now() + (window.pausedAt === null ? Math.max(0, window.probeAt - clock.monotonic()) : PAUSED_DELAY);
  }

  /** Gives what places there are to those who wait, the first one first. */
  private handOn(): void {
    while (this.queue.length > 0 && this.hasRoom) {
      this.window.inFlight += 1;
      this.queue.shift()?.(true);
    }
  }
}
