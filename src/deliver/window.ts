import { backoff } from '../retry.ts';
import { type Share, WHOLE } from './share.ts';

/** Attempts in flight to a new endpoint, and to any endpoint at most. */
const INITIAL_LIMIT = 16;
const MAX_LIMIT = 256;
/**
 * An endpoint that can answer within so many milliseconds takes over a thousand a second with this many in flight. Its
 * quickest answer tells, for those of the moment grow with what is in flight, here as there.
 */
const FAST_ANSWER = 50;
const FAST_LIMIT = 64;
/** Failures in a row, with no success between, that make an endpoint dead: unreachable ones, and those of one that answers. */
const UNREACHABLE_FAILURES = 5;
const ANSWERED_FAILURES = 10;
/** Pause between probes of a dead endpoint, in milliseconds. */
const PROBE_BASE = 1_000;
const PROBE_CAP = 30_000;

export interface WindowOptions {
  readonly pausedAt: number | null;
  readonly deadSince: number | null;
  /** How many processes share the endpoint, each of which gets its part. */
  readonly share?: Share;
}

/**
 * How many attempts may be in flight to one endpoint. It grows with successes and halves with failures, as TCP's
 * does, down to one probe at a time: circuit breaker, fair share and ramp after an outage in one.
 */
export class Window {
  /** Attempts in flight now. */
  inFlight = 0;
  /** Since when the endpoint answers no probe, in the store's time; null while it does. */
  deadSince: number | null;
  /** Paused by a 410 until a person resumes it. */
  pausedAt: number | null;
  /** Earliest time of the next probe of a dead endpoint, by the steady clock, as all times below. */
  probeAt = 0;
  private share: Share;
  private limit: number;
  /** Growth is fast below this, and careful above. */
  private threshold: number;
  private lastDecrease = Number.NEGATIVE_INFINITY;
  private failures = 0;
  private probes = 0;
  /** Milliseconds of the quickest answer since the last failure. */
  private quickest = Number.POSITIVE_INFINITY;

  constructor({ pausedAt, deadSince, share = WHOLE }: WindowOptions) {
    this.pausedAt = pausedAt;
    this.deadSince = deadSince;
    this.share = share;
    this.threshold = this.part(MAX_LIMIT);
    this.limit = deadSince === null ? this.part(INITIAL_LIMIT) : 1;
  }

  /** Takes a smaller part of what the endpoint was given, at once, or a larger one, which it grows into. */
  changeShare(share: Share): void {
    if (share.of > this.share.of) this.limit = Math.max(1, (this.limit * this.share.of) / share.of);
    this.share = share;
  }

  /** Takes attempts as they come, as opposed to one probe now and then, or none. */
  get open(): boolean {
    return this.deadSince === null && this.pausedAt === null;
  }

  /** Attempts that may begin now. */
  free(now: number): number {
    if (this.pausedAt !== null) return 0;
    if (this.deadSince !== null) return this.share.leads && this.inFlight === 0 && now >= this.probeAt ? 1 : 0;
    return Math.max(0, Math.floor(this.limit) - this.inFlight);
  }

  /** Attempts in flight at the present size, whether used or not. */
  get size(): number {
    return this.open ? Math.floor(this.limit) : 1;
  }

  /**
   * The endpoint answered; a refusal of one message says nothing against its health.
   *
   * @param ms - how long it took: a fast endpoint gains nothing from more connections, a far one does
   */
  succeeded(ms: number): void {
    this.inFlight -= 1;
    this.failures = 0;
    this.probes = 0;
    this.deadSince = null;
    this.quickest = Math.min(this.quickest, ms);
    // A window that is not used has not shown that it could be larger.
    if (this.inFlight + 1 < this.limit / 2 || (this.quickest < FAST_ANSWER && this.limit >= this.part(FAST_LIMIT)))
      return;
    const growth = this.limit < this.threshold ? 1 : this.carefulGrowth / this.limit;
    this.limit = Math.min(this.part(MAX_LIMIT), this.limit + growth);
  }

  /**
   * @param startedAt - when the attempt began: several failures of one round halve the window once
   * @param answered - whether the endpoint gave a status at all
   * @param time - what `now`, which is steady, is in the store's time
   */
  failed(startedAt: number, now: number, answered: boolean, random: number, time = now): void {
    this.inFlight -= 1;
    this.failures += 1;
    this.quickest = Number.POSITIVE_INFINITY;
    if (this.deadSince !== null) {
      // What was in flight when the endpoint died says nothing new.
      if (startedAt >= this.probeAt) this.scheduleProbe(now, random);
      return;
    }
    if (startedAt > this.lastDecrease) {
      this.limit = Math.max(1, this.limit / 2);
      this.threshold = this.limit;
      this.lastDecrease = now;
    }
    const lost = answered
      ? this.failures >= ANSWERED_FAILURES && this.limit === 1
      : this.failures >= UNREACHABLE_FAILURES;
    if (lost) this.die(now, random, time);
  }

  pause(now: number): void {
    this.pausedAt = now;
  }

  /** Another process found that the endpoint is dead, or, with null, that it lives. */
  hear(deadSince: number | null): void {
    if ((this.deadSince === null) === (deadSince === null)) return;
    this.deadSince = deadSince;
    this.failures = 0;
    this.probes = 0;
    this.probeAt = 0;
    this.shrink();
  }

  resume(): void {
    this.pausedAt = null;
    this.probeAt = 0;
  }

  private die(now: number, random: number, time: number): void {
    this.deadSince = time;
    this.shrink();
    this.scheduleProbe(now, random);
  }

  /** After the outage it doubles up to what a new endpoint gets, then feels its way. */
  private shrink(): void {
    this.limit = 1;
    this.threshold = this.part(INITIAL_LIMIT);
    this.lastDecrease = Number.NEGATIVE_INFINITY;
  }

  /**
   * By how much it grows in a round where it feels its way: with all who share the endpoint by one, until something
   * fails. From then on mostly one of them halves at a time, so they fail no oftener than a single window only if they
   * grow the less for it.
   */
  private get carefulGrowth(): number {
    const { of } = this.share;
    return this.lastDecrease === Number.NEGATIVE_INFINITY ? 1 / of : 1 / of ** 2;
  }

  private part(limit: number): number {
    return Math.max(1, Math.floor(limit / this.share.of));
  }

  private scheduleProbe(now: number, random: number): void {
    this.probes += 1;
    // Not before half of the step, so that a dead endpoint is never hurried.
    this.probeAt = Math.ceil(now + backoff(this.probes, 0.5 + random / 2, PROBE_BASE, PROBE_CAP));
  }
}
