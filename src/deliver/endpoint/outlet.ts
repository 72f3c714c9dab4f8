import isEqual from 'lodash/isEqual.js';
import type { Clock } from '../../kernel/clock.ts';
import { RETRY_WINDOW } from '../../kernel/retry.ts';
import type { Claim, EndpointState, Refusal } from '../../store/port.ts';
import type { Batcher } from '../batcher.ts';
import type { Exchange } from '../exchange.ts';
import type { PreparedEndpoint } from '../request.ts';
import type { Denial, SkipCause } from '../verdict.ts';
import type { EndpointFailure } from './answers.ts';
import { isDenial, isUntrusted, Refusals } from './refusals.ts';
import type { Window, WindowMoment } from './window.ts';

/** Pause of an endpoint after an attempt for which this machine lacked something, in milliseconds. */
const REST = 1_000;
/** Delay of a delivery that waits only for a paused endpoint, in milliseconds. */
const PAUSED_DELAY = 60_000;

/** An endpoint with its window and the attempts waiting for it. */
export class Outlet {
  prepared: PreparedEndpoint;
  readonly window: Window;
  readonly refusals: Refusals;
  /** Gathers deliveries into requests; null if each is a request of its own. */
  batcher: Batcher | null = null;
  /** End of this process's last attempt, in store time. */
  triedAt: number | null = null;
  /** True if the last attempt found a certificate or an address that is not allowed; null before the first attempt. */
  private isUntrusted: boolean | null = null;
  private readonly clock: Clock;
  private death: Pick<EndpointState, 'deadCause' | 'deadAnswer'> = {};
  private isResting = false;
  /** Resolvers of waiting attempts; true if a place was taken for them. */
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

  stateIn(destination: string): EndpointState {
    const { pausedAt, deadSince } = this.window;
    const death = deadSince === null ? {} : this.death;
    return { endpoint: this.id, destination, pausedAt, deadSince, ...death, refusal: this.refusals.state };
  }

  /** True if it may be closed because of its certificate or address. */
  get mayBeUntrusted(): boolean {
    return this.window.refusingSince !== null && this.isUntrusted !== false;
  }

  get waiting(): number {
    return this.batcher ? Math.max(0, this.batcher.gathered - this.batcher.size) : this.queue.length;
  }

  /** Deliveries that may be in flight at the window's current size. */
  get size(): number {
    return this.window.size * (this.batcher?.size ?? 1);
  }

  get hasRoom(): boolean {
    const { free, batcher } = this;
    return batcher ? batcher.hasRoom(free) : free > 0;
  }

  private get free(): number {
    if (this.isResting) return 0;
    // The time only matters if closed, and reading it is costly several times per delivery.
    return this.window.free(this.window.open ? 0 : this.clock.monotonic());
  }

  tryEnter(): boolean {
    if (this.free === 0) return false;
    this.window.begin();
    return true;
  }

  /** Takes a place in the window, waiting while the endpoint is busy; else resolves to the reason for none. */
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
   * Returns the place; true if the endpoint's state changed.
   *
   * @param begun - the window's count of attempts when this one began
   */
  leave(exchange: Exchange, begun: number, { id, tries, type }: Claim): boolean {
    const { window, clock, refusals } = this;
    const { pausedAt, deadSince } = window;
    const { state } = refusals;
    this.triedAt = clock.now();
    this.isUntrusted = isUntrusted(exchange);
    const failure = failureOf(exchange);
    if (isDenial(exchange)) this.denied(exchange, begun, id);
    else {
      if (exchange.outcome === 'success') refusals.took(this.triedAt);
      else if (failure === null || !refusals.isRefusing) refusals.answered();
      if (failure === null) window.succeeded(exchange.ms);
      else window.failed(begun, failure, tries > 0, this.moment, clock.random());
    }
    if (window.deadSince !== deadSince)
      this.death = { deadCause: exchange.error, deadAnswer: type === 'delete' ? null : beginningOf(exchange.response) };
    if (exchange.status === 410) window.pause(clock.now());
    if (!window.open) this.wakeAll();
    this.handOn();
    return window.pausedAt !== pausedAt || window.deadSince !== deadSince || refusals.state !== state;
  }

  private denied(exchange: Exchange, begun: number, message: string): void {
    const { window, clock, refusals } = this;
    refusals.denied(message);
    if (this.isUntrusted && window.refusingSince === null) this.refuse();
    if (window.refusingSince !== null) window.refused(begun, clock.monotonic(), clock.random());
    else {
      window.succeeded(exchange.ms);
      // Only the probing process reports it, so that it is reported once.
      if (refusals.areEnough && window.leads) this.refuse();
    }
  }

  /** The extent of a refusal that was just counted. */
  get standing(): Denial {
    if (this.window.refusingSince !== null) return 'held';
    return this.refusals.row > 1 ? 'in a row' : 'single';
  }

  /** Records that the endpoint refuses everything. */
  refuse(): void {
    const { window, clock, refusals } = this;
    window.refuse(this.moment, clock.random());
    refusals.begin(clock.now(), refusals.takenAt ?? clock.now() - RETRY_WINDOW);
  }

  /** Applies a state found by another process or set by a person. */
  hear({ pausedAt, deadSince, deadCause = null, deadAnswer = null, refusal = null }: EndpointState): void {
    this.death = { deadCause, deadAnswer };
    const { window, clock } = this;
    if (pausedAt === null && window.pausedAt !== null) window.resume();
    else if (pausedAt !== null && window.pausedAt === null) window.pause(pausedAt);
    if (!isEqual(refusal, this.refusals.state)) this.refusals.state = refusal;
    window.hear(deadSince, refusal?.since ?? null, clock.random());
  }

  /** Returns the place of an attempt that was not made. */
  withdraw(): void {
    this.window.withdraw();
    this.handOn();
  }

  /** Returns the place of an attempt for which this machine lacked something, and begins fewer, after a pause. */
  rest(onRested: () => void): void {
    this.window.withdraw();
    if (this.isResting) return;
    this.isResting = true;
    this.window.decrease();
    this.clock.after(REST, () => {
      this.isResting = false;
      this.handOn();
      onRested();
    });
  }

  wakeAll(): void {
    for (const resolve of this.queue.splice(0)) resolve(false);
    this.batcher?.cut();
  }

  /** Milliseconds after which an attempt without room should be retried: an integer, as due times are. */
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

  /** Hands free places to waiting attempts in order. */
  private handOn(): void {
    while (this.queue.length > 0 && this.free > 0) {
      this.window.begin();
      this.queue.shift()?.(true);
    }
  }
}

/** The endpoint failure that an exchange shows, null for none. A refusal is about the message. */
function failureOf({ outcome, status, error }: Exchange): EndpointFailure | null {
  if (outcome === 'success' || outcome === 'refused') return null;
  if (status !== null) return status === 503 || status === 429 ? 'overload' : 'fault';
  return error !== null && BROKEN.has(error) ? 'silence' : 'unreachable';
}

/** Failure causes of established connections. */
export const BROKEN: ReadonlySet<string> = new Set(['timeout', 'UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

/** The most characters of an answer that are kept with an endpoint's state. */
const ANSWER = 200;

function beginningOf(response: string | null): string | null {
  const text = (response ?? '')
    .slice(0, 4 * ANSWER)
    .replaceAll(/[\p{C}\s]+/gu, ' ')
    .trim();
  return text === '' ? null : text.slice(0, ANSWER).toWellFormed();
}
