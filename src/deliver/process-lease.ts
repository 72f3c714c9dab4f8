import type { Clock } from '../clock.ts';
import type { Logger } from '../log.ts';
import type { Store } from '../store/port.ts';

/** How long this process may be silent before others take over its claims, in milliseconds: three attempts. */
export const LEASE_TTL = 20_000;
const HEARTBEAT_INTERVAL = 5_000;
/** A claim is not posted any more when less than one attempt's time is left on the lease. */
const MARGIN = 6_000;

export interface LeaseHooks {
  readonly onRenewed: () => void;
  /** Called before the lease is taken anew: what no one has taken over yet can still be settled under the old one. */
  readonly onEnded: () => void;
  /** Called once this process has a new lease; everything claimed under the old one belongs to others. */
  readonly onLost: () => void;
}

/** This process's right to its claims. A process that was stopped for too long notices, and starts afresh. */
export class ProcessLease {
  owner = 0;
  /** The number that this process gave itself; it stays when the owner changes. */
  readonly process: number;
  private readonly store: Pick<Store, 'join' | 'heartbeat' | 'leave'>;
  private readonly clock: Clock;
  private readonly log: Logger;
  private readonly hooks: LeaseHooks;
  /** By this process's own steady clock, counted from before the store was asked. */
  private heldUntil = 0;
  private cancelTimer: (() => void) | null = null;
  private stopped = false;
  private beating: Promise<void> | null = null;

  constructor(
    store: Pick<Store, 'join' | 'heartbeat' | 'leave'>,
    process: number,
    clock: Clock,
    log: Logger,
    hooks: LeaseHooks,
  ) {
    this.store = store;
    this.process = process;
    this.clock = clock;
    this.log = log;
    this.hooks = hooks;
  }

  async start(): Promise<void> {
    await this.join();
    this.schedule();
  }

  isHeld(): boolean {
    return this.clock.monotonic() < this.heldUntil - MARGIN;
  }

  async stop(): Promise<void> {
    this.stopped = true;
    this.cancelTimer?.();
    await this.beating;
    await this.store.leave(this.owner).catch((error) => this.log.warn({ err: error }, 'The lease could not be ended'));
  }

  private async join(): Promise<void> {
    const asked = this.clock.monotonic();
    this.owner = await this.store.join(LEASE_TTL, this.process);
    this.heldUntil = asked + LEASE_TTL;
  }

  private schedule(): void {
    if (this.stopped) return;
    this.cancelTimer = this.clock.after(HEARTBEAT_INTERVAL, () => {
      this.beating = this.beat().finally(() => this.schedule());
    });
  }

  private async beat(): Promise<void> {
    try {
      const asked = this.clock.monotonic();
      if (await this.store.heartbeat(this.owner, LEASE_TTL)) {
        this.heldUntil = asked + LEASE_TTL;
        this.hooks.onRenewed();
        return;
      }
      this.log.warn(
        { stage: 'claim', owner: this.owner },
        'This process was silent too long; its claims went to others',
      );
      this.heldUntil = 0;
      this.hooks.onEnded();
      await this.join();
      this.hooks.onLost();
    } catch (error) {
      this.log.warn({ stage: 'claim', err: error }, 'The lease could not be renewed; trying again');
    }
  }
}
