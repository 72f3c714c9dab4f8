import type { Clock } from '../kernel/clock.ts';
import { type ClockReadings, LeaseTime, momentOf } from '../kernel/lease-time.ts';
import type { Logger } from '../kernel/log.ts';
import type { Queue } from '../store/port.ts';

/** Milliseconds of silence after which others take over this process's claims: three attempts. */
export const LEASE_TTL = 20_000;
const HEARTBEAT_INTERVAL = 5_000;
/** No claim is posted once less than one attempt's time is left on the lease. */
const MARGIN = 6_000;

interface LeaseHooks {
  readonly onRenewed: () => void;
  /** Called before taking a new lease: claims nobody has taken over can still be settled under the old one. */
  readonly onEnded: () => void;
  /** Called once this process has a new lease; all claims of the old one belong to others. */
  readonly onLost: () => void;
}

/** This process's right to its claims. A process that was stopped for too long notices, and starts over. */
export class ProcessLease {
  owner = 0;
  private readonly store: Pick<Queue, 'join' | 'heartbeat' | 'leave'>;
  private readonly clock: Clock;
  private readonly log: Logger;
  private readonly hooks: LeaseHooks;
  private readonly time: LeaseTime;
  /** True if the clocks disagreed and the store was asked at once. */
  private doubted = false;
  private isBeating = false;
  private cancelTimer: (() => void) | null = null;
  private stopped = false;
  private beating: Promise<void> | null = null;

  constructor(store: Pick<Queue, 'join' | 'heartbeat' | 'leave'>, clock: Clock, log: Logger, hooks: LeaseHooks) {
    this.store = store;
    this.clock = clock;
    this.log = log;
    this.hooks = hooks;
    this.time = new LeaseTime(clock);
  }

  async start(): Promise<void> {
    await this.join();
    this.schedule();
  }

  /** True if a post made now will end under the lease. Checked before each post. */
  isHeld(): boolean {
    if (this.time.left > MARGIN) return true;
    // A clock was set, or the machine slept: the store knows if the claims are still ours.
    if (!this.doubted && this.time.leftBySteadyClock > MARGIN) this.askAtOnce();
    return false;
  }

  async stop(): Promise<void> {
    this.stopped = true;
    this.cancelTimer?.();
    await this.beating;
    await this.store.leave(this.owner).catch((error) => this.log.warn({ err: error }, 'Could not release the lease'));
  }

  private async join(): Promise<void> {
    const asked = momentOf(this.clock);
    this.owner = await this.store.join(LEASE_TTL);
    this.renewed(asked);
  }

  private schedule(): void {
    if (this.stopped) return;
    this.cancelTimer = this.clock.roughly(HEARTBEAT_INTERVAL, () => this.beatAndSchedule());
  }

  private beatAndSchedule(): void {
    this.isBeating = true;
    this.beating = this.beat().finally(() => {
      this.isBeating = false;
      this.schedule();
    });
  }

  private askAtOnce(): void {
    if (this.isBeating || this.stopped) return;
    this.doubted = true;
    this.cancelTimer?.();
    this.beatAndSchedule();
  }

  private renewed(asked: ClockReadings): void {
    this.time.extend(asked, LEASE_TTL);
    this.doubted = false;
  }

  private async beat(): Promise<void> {
    try {
      const asked = momentOf(this.clock);
      if (await this.store.heartbeat(this.owner, LEASE_TTL)) {
        this.renewed(asked);
        this.hooks.onRenewed();
        return;
      }
      this.log.warn({ stage: 'claim', owner: this.owner }, 'Lease expired; other processes took over its deliveries');
      this.time.end();
      this.hooks.onEnded();
      await this.join();
      this.hooks.onLost();
    } catch (error) {
      this.log.warn({ stage: 'claim', err: error }, 'Could not renew the lease; retrying');
    }
  }
}
