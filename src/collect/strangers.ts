import type { Socket } from 'node:net';
import type { Clock } from '../kernel/clock.ts';
import { RollcallError } from '../kernel/errors.ts';
import type { Account, HeldBytes } from './pressure.ts';

export interface StrangerLimits {
  /** Bytes of all requests whose write key is not known yet. */
  readonly strangerBytes: number;
  /** Connections on which no write key was shown yet. */
  readonly strangerSockets: number;
  /** Milliseconds for a request without a known key to arrive. */
  readonly strangerTime: number;
}

const LOOK_EVERY = 1_000;
/** Milliseconds between two cuts of connections beyond the limit. Beyond OVERFLOW times the limit, cuts do not wait. */
const CUT_EVERY = 2;
const OVERFLOW = 2;

/**
 * Requests and connections that have shown no write key. There is little room for them, but a new one is never refused for
 * lack of it: the oldest are cut. An honest request stays for milliseconds, so the oldest are those that hold on.
 */
export class Strangers implements Account {
  private readonly limits: StrangerLimits;
  private readonly clock: Pick<Clock, 'monotonic' | 'after'>;
  /** Times of arrival, oldest first. */
  private readonly arrivals = new Map<HeldBytes, number>();
  readonly sockets = new Set<Socket>();
  private bytes = 0;
  private watching = false;
  private cutting = false;

  constructor(limits: StrangerLimits, clock: Pick<Clock, 'monotonic' | 'after'>) {
    this.limits = limits;
    this.clock = clock;
  }

  /** There is always room for one more. */
  expect(): void {}

  charge(hold: HeldBytes, bytes: number): void {
    if (!this.arrivals.has(hold)) this.arrivals.set(hold, this.clock.monotonic());
    this.watch();
    hold.bytes += bytes;
    this.bytes += bytes;
    for (const [oldest] of this.arrivals) {
      if (this.bytes <= this.limits.strangerBytes) break;
      oldest.evict(new RollcallError('overloaded', 'Too many requests without a write key are waiting; try again.'));
    }
  }

  release(hold: HeldBytes): void {
    if (!this.arrivals.delete(hold)) return;
    this.bytes -= hold.bytes;
    hold.bytes = 0;
  }

  connected(socket: Socket): void {
    this.sockets.add(socket);
    socket.once('close', () => this.sockets.delete(socket));
    if (this.sockets.size > OVERFLOW * this.limits.strangerSockets) this.cutOldest();
    else if (this.sockets.size > this.limits.strangerSockets) this.cutLater();
  }

  /** Cuts one at a time: a client that reconnects at once after each cut must not make us as busy as it is. */
  private cutLater(): void {
    if (this.cutting) return;
    this.cutting = true;
    this.clock.after(CUT_EVERY, () => {
      this.cutting = false;
      if (this.sockets.size <= this.limits.strangerSockets) return;
      this.cutOldest();
      this.cutLater();
    });
  }

  private cutOldest(): void {
    const [oldest] = this.sockets;
    if (oldest === undefined) return;
    this.sockets.delete(oldest);
    oldest.destroy();
  }

  isKnown(socket: Socket): boolean {
    return !this.sockets.has(socket);
  }

  /** Called when a write key was shown on this connection. */
  known(socket: Socket): void {
    this.sockets.delete(socket);
  }

  /** Checks at intervals for requests whose time is over, as long as there are any requests. */
  private watch(): void {
    if (this.watching) return;
    this.watching = true;
    this.clock.after(LOOK_EVERY, () => {
      this.watching = false;
      const since = this.clock.monotonic() - this.limits.strangerTime;
      for (const [hold, at] of this.arrivals) {
        if (at > since) break;
        hold.evict(new RollcallError('request_timeout', 'The request took too long to arrive.'));
      }
      if (this.arrivals.size > 0) this.watch();
    });
  }
}
