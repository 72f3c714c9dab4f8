import isEqual from 'lodash/isEqual.js';
import type { Clock } from '../../kernel/clock.ts';
import { RETRY_WINDOW } from '../../kernel/retry.ts';
import type { Claim, EndpointState, Refusal } from '../../store/port.ts';
import type { Batcher } from '../batcher.ts';
import type { Exchange } from '../exchange.ts';
import type { PreparedEndpoint } from '../request.ts';
import type { Denial, SkipCause } from '../verdict.ts';
import type { EndpointFailure } from './answers.ts';
import { isDenial, Refusals } from './refusals.ts';
import type { Window, WindowMoment } from './window.ts';

/** How long a delivery is put off that waits for a paused endpoint only, in milliseconds. */
const PAUSED_DELAY = 60_000;

/** An endpoint with its window and the attempts that wait for room in it. */
export class Outlet {
  prepared: PreparedEndpoint;
  readonly window: Window;
  readonly refusals: Refusals;
  /** Gathers deliveries into requests; null where each is a request. */
  batcher: Batcher | null = null;
  /** When this process's last attempt ended, in the store's time. */
  triedAt: number | null = null;
  private readonly clock: Clock;
  /** Called with whether a place was kept for the one who waits. */
  private readonly queue: ((hasPlace: boolean) => void)[] = [];

  constructor(prepared: PreparedEndpoint, window: Window, clock: Clock, refusal: Refusal | null = null) {
    this.prepared = prepared;
    this.window = window;
    this.refusals = new Refusals(refusal);
    this.clock = clock;
  }

  get id(): string {
    return this.prepared.endpoint.id;
  }

  /** Its state as one destination sees it. */
  stateIn(destination: string): EndpointState {
    const { pausedAt, deadSince } = this.window;
    return { endpoint: this.id, destination, pausedAt, deadSince, refusal: this.refusals.state };
  }

  /** Attempts that wait for room. */
  get waiting(): number {
    return this.batcher ? Math.max(0, this.batcher.gathered - this.batcher.size) : this.queue.length;
  }

  /** Deliveries that may be in flight at the window's present size. */
  get size(): number {
    return this.window.size * (this.batcher?.size ?? 1);
  }

  /** Whether one more delivery could begin at once. */
  get hasRoom(): boolean {
    const { free, batcher } = this;
    return batcher ? batcher.hasRoom(free) : free > 0;
  }

  /** Requests that may begin now. */
  private get free(): number {
    // The time only matters to one that is closed, and reading it counts where it is asked several times for each delivery.
    return this.window.free(this.window.open ? 0 : this.clock.monotonic());
  }

  /** Takes a place in the window if there is one at once. */
  tryEnter(): boolean {
    if (this.free === 0) return false;
    this.window.begin();
    return true;
  }

  /** Takes a place in the window, for which it waits while the endpoint is merely busy; else says why there is none. */
  async enter(mayPost: () => boolean): Promise<SkipCause | null> {
    while (mayPost()) {
      if (this.tryEnter()) return null;
      if (this.window.pausedAt !== null) return 'paused';
      if (this.window.refusingSince !== null) return 'refusing';
      if (this.window.deadSince !== null) return 'dead';
      const hasPlace = await new Promise<boolean>((resolve) => this.queue.push(resolve));
      if (hasPlace && mayPost()) return null;
      if (hasPlace) this.window.withdraw();
    }
    this.handOn();
    return 'cut';
  }

  /**
   * Gives the place back; true when the endpoint died, came back, refuses everything or was paused by it.
   *
   * @param begun - attempts that the window counted when this one began
   */
  leave(exchange: Exchange, begun: number, { id, tries }: Claim): boolean {
    const { window, clock, refusals } = this;
    const { pausedAt, deadSince } = window;
    const { state } = refusals;
    this.triedAt = clock.now();
    const failure = failureOf(exchange);
    if (isDenial(exchange)) this.denied(exchange, begun, id);
    else {
      if (exchange.outcome === 'success') refusals.took(this.triedAt);
      else if (failure === null || !refusals.isRefusing) refusals.answered();
      if (failure === null) window.succeeded(exchange.ms);
      else window.failed(begun, failure, tries > 0, this.moment, clock.random());
    }
    if (exchange.status === 410) window.pause(clock.now());
    if (!window.open) this.wakeAll();
    this.handOn();
    return window.pausedAt !== pausedAt || window.deadSince !== deadSince || refusals.state !== state;
  }

  private denied(exchange: Exchange, begun: number, message: string): void {
    const { window, clock, refusals } = this;
    refusals.denied(message);
    if (window.refusingSince !== null) window.refused(begun, clock.monotonic(), clock.random());
    else {
      window.succeeded(exchange.ms);
      // Of several processes only the one that probes reports it, so that it is reported once.
      if (refusals.areEnough && window.leads) this.refuse();
    }
  }

  /** Whether a refusal, which was just counted, is the endpoint's fault or the message's. */
  get standing(): Denial {
    if (this.window.refusingSince !== null) return 'held';
    return this.refusals.row > 1 ? 'in a row' : 'single';
  }

  /** The endpoint refuses everything. */
  refuse(): void {
    const { window, clock, refusals } = this;
    window.refuse(this.moment, clock.random());
    refusals.begin(clock.now(), refusals.takenAt ?? clock.now() - RETRY_WINDOW);
  }

  /** Takes over what another process or a person found. */
  hear({ pausedAt, deadSince, refusal = null }: EndpointState): void {
    const { window, clock } = this;
    if (pausedAt === null && window.pausedAt !== null) window.resume();
    else if (pausedAt !== null && window.pausedAt === null) window.pause(pausedAt);
    if (!isEqual(refusal, this.refusals.state)) this.refusals.state = refusal;
    window.hear(deadSince, refusal?.since ?? null, clock.random());
  }

  /** Gives the place back of an attempt that was not made. */
  withdraw(): void {
    this.window.withdraw();
    this.handOn();
  }

  /** Has those who wait look again. */
  wakeAll(): void {
    for (const resolve of this.queue.splice(0)) resolve(false);
    this.batcher?.cut();
  }

  /** In how many milliseconds an attempt that finds no room should come again: whole ones, as due times are kept in. */
  get nextChance(): number {
    return this.window.pausedAt === null ? Math.ceil(this.untilProbe) : PAUSED_DELAY;
  }

  /** Milliseconds until the next probe. */
  get untilProbe(): number {
    return Math.max(0, this.window.probeAt - this.clock.monotonic());
  }

  get moment(): WindowMoment {
    return { steady: this.clock.monotonic(), store: this.clock.now() };
  }

  /** Gives what places there are to those who wait, the first one first. */
  private handOn(): void {
    while (this.queue.length > 0 && this.free > 0) {
      this.window.begin();
      this.queue.shift()?.(true);
    }
  }
}

/** The failure that an exchange shows of the endpoint; null for none. A refusal speaks of the message. */
function failureOf({ outcome, status, error }: Exchange): EndpointFailure | null {
  if (outcome === 'success' || outcome === 'refused') return null;
  if (status !== null) return status === 503 || status === 429 ? 'overload' : 'fault';
  return error !== null && BROKEN.has(error) ? 'silence' : 'unreachable';
}

/** Causes of failures on a connection that there was. */
export const BROKEN: ReadonlySet<string> = new Set(['timeout', 'UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);
