import { backoff } from '../../kernel/retry.ts';
import { type Share, WHOLE } from '../share.ts';
import { Answers, type EndpointFailure } from './answers.ts';

/*
 * Limits the attempts in flight to one endpoint: congestion control, circuit breaker and ramp in one number, `limit`.
 *
 * An endpoint is open, or closed in one of three ways:
 *
 * - open: up to `limit` attempts.
 * - dead (`deadSince`): it gave no answer, or only errors, many times in a row. One probe at a time, with backoff. The
 *   first success opens it.
 * - refusing (`refusingSince`): it refuses everything. Probed the same way.
 * - paused (`pausedAt`): it answered 410, or a person paused it. Nothing is sent until a person resumes it.
 *
 * While the endpoint is open, the window grows and shrinks in three phases, as in TCP:
 *
 * - fast: below `threshold`, each success adds one, so that the window doubles in a round.
 * - careful: above `threshold`, one more in each round. If the endpoint answers quickly, it stops at 64 in flight.
 * - resting: after a step back it stays as it is, until `CALM` rounds passed without an overload sign.
 *
 * Overload signs (timeouts, resets, 429, 503) undo the last step of growth if they are rare (`stepBack`), and otherwise
 * halve the window, once in a round (`decrease`). If signs occur at any size (`isAccustomed`), it grows until they are
 * too many. Other 5xx count only once they are most of the answers: until then they are considered the fault of a
 * message. A "round" is as many attempts as were in flight: attempts are numbered by `begun`, and one with a higher
 * number than at the last decrease belongs to a later round.
 *
 * Processes that share an endpoint each get their part of every limit (`share`), and one of them probes.
 */

/** Attempts in flight to a new endpoint, and the maximum for any endpoint. */
const INITIAL_LIMIT = 16;
const MAX_LIMIT = 256;
/**
 * An endpoint that answers within this many milliseconds handles over a thousand a second with this many in flight. Its
 * quickest answer decides, since current ones slow down with the number in flight, here and there.
 */
const FAST_ANSWER = 50;
const FAST_LIMIT = 64;
/** Failures in a row, through a whole round, that are no chance. */
const ROW = 3;
/** Failures in a row that make an endpoint dead: unreachable, and answered ones. */
const UNREACHABLE_FAILURES = 5;
const ANSWERED_FAILURES = 10;
/** Rounds without an overload sign after which a window that met the endpoint's limit grows again. */
const CALM = 16;
/** Rounds with signs of overload after which these count as normal for the endpoint and no longer stop growth. */
const ACCUSTOMED = 12;
/** Smallest share of a window that steps back may leave while signs are few. */
const RETREAT = 0.25;
/** Pause between probes of a closed endpoint, in milliseconds. */
const PROBE_BASE = 1_000;
const PROBE_CAP = 30_000;

/** A moment by the steady clock, which counts here, and in store time, which is stored. */
export interface WindowMoment {
  readonly steady: number;
  readonly store: number;
}

/** Reasons for closing an endpoint, each with its start in store time; null if not the case. */
interface Closure {
  /** Start of a pause, after a 410 or by a person, until a person resumes it. */
  readonly pausedAt: number | null;
  /** Time it died: no probe has succeeded since. */
  readonly deadSince: number | null;
  readonly refusingSince?: number | null;
}

interface WindowOptions extends Closure {
  /** Number of processes that share the endpoint, each with its part. */
  readonly share?: Share;
}

/**
 * Limits the attempts in flight to one endpoint. As TCP's, it grows with successes and halves with overload signs, down
 * to one probe at a time. It combines circuit breaker, fair share and ramp after an outage.
 */
export class Window {
  inFlight = 0;
  /** Attempts begun so far. A later one belongs to a later round than answers before it. */
  begun = 0;
  deadSince: number | null;
  /** Start of a pause, after a 410 or by a person, until a person resumes it. */
  pausedAt: number | null;
  refusingSince: number | null;
  /** Earliest time of the next probe of a closed endpoint, by the steady clock. */
  probeAt = Number.NEGATIVE_INFINITY;
  private share: Share;
  private limit: number;
  /** Growth is fast below this, careful above. */
  private threshold: number;
  private readonly answers = new Answers();
  /** Values of `begun` at the last decrease, the last step back, the row's first failure, and when it closed. */
  private begunAtDecrease = 0;
  private begunAtStep = 0;
  private begunAtRow = 0;
  private begunAtClosure = 0;
  /** True if a failure since it opened has shrunk the window. */
  private hasFailed = false;
  /** True while failures count against the endpoint, not the message: before a success, or after `ROW` in a row. */
  isAiling = true;
  /** Failures in a row. */
  private row = 0;
  private probes = 0;
  /** Answers since the last overload sign, and rounds with signs; calm rounds halve their number. */
  private calm = 0;
  private roundsWithSigns = 0;
  /** True while it waits after a step back; `floor` is the smallest size it steps to. */
  private isResting = false;
  private floor = 1;
  /** Quickest answer since the last decrease, in milliseconds. */
  private quickest = Number.POSITIVE_INFINITY;

  constructor({ pausedAt, deadSince, refusingSince = null, share = WHOLE }: WindowOptions) {
    this.pausedAt = pausedAt;
    this.deadSince = deadSince;
    this.refusingSince = refusingSince;
    this.share = share;
    this.threshold = this.part(this.open ? MAX_LIMIT : INITIAL_LIMIT);
    this.limit = deadSince === null && refusingSince === null ? this.part(INITIAL_LIMIT) : 1;
  }

  /** Applies a share: a smaller one at once, a larger one by growing into it. */
  changeShare(share: Share): void {
    if (share.of > this.share.of) this.limit = Math.max(1, (this.limit * this.share.of) / share.of);
    this.share = share;
  }

  /** True if attempts may begin as they arrive, not only probes. */
  get open(): boolean {
    return this.deadSince === null && this.refusingSince === null && this.pausedAt === null;
  }

  /** True if this process is the one that probes. */
  get leads(): boolean {
    return this.share.leads;
  }

  get sharers(): number {
    return this.share.of;
  }

  /** Attempts that may begin now, by the steady clock. */
  free(now: number): number {
    if (this.open) return Math.max(0, Math.floor(this.limit) - this.inFlight);
    if (this.pausedAt !== null) return 0;
    return this.share.leads && this.inFlight === 0 && now >= this.probeAt ? 1 : 0;
  }

  /** Attempts in flight at the current size, used or not. */
  get size(): number {
    return this.open ? Math.floor(this.limit) : 1;
  }

  begin(): void {
    this.inFlight += 1;
    this.begun += 1;
  }

  /** Returns the place of an attempt that was not made. */
  withdraw(): void {
    this.inFlight -= 1;
  }

  /**
   * Counts an answer as healthy. Refusals count too: they concern the message, not the endpoint.
   *
   * @param ms - duration: a fast endpoint gains nothing from more connections, a distant one does
   */
  succeeded(ms: number): void {
    this.inFlight -= 1;
    this.row = 0;
    this.isAiling = false;
    this.probes = 0;
    this.deadSince = null;
    this.refusingSince = null;
    this.answers.add(null, this.limit);
    this.noteCalm();
    this.quickest = Math.min(this.quickest, ms);
    if (this.mayGrow) {
      const growth = this.limit < this.threshold ? 1 : this.carefulGrowth / this.limit;
      this.limit = Math.min(this.part(MAX_LIMIT), this.limit + growth);
    }
  }

  /**
   * @param begun - the count when the attempt began: several failures of one round halve the window once
   * @param again - true if the message was tried before
   */
  failed(begun: number, failure: EndpointFailure, again: boolean, at: WindowMoment, random: number): void {
    this.inFlight -= 1;
    if (!this.open) {
      // Attempts already in flight when the endpoint died say nothing new.
      if (begun > this.begunAtClosure) this.scheduleProbe(at.steady, random);
      return;
    }
    // A message that fails again while others succeed waits behind them, and costs them nothing.
    if (again && !this.isAiling && failure !== 'overload' && failure !== 'unreachable') return;
    if (this.row === 0) this.begunAtRow = this.begun;
    this.row += 1;
    this.isAiling ||= this.row >= ROW;
    this.answers.add(failure, this.limit);
    if (begun > this.begunAtDecrease && this.isTooBad(begun)) this.decrease();
    else if (failure !== 'fault') this.stepBack(begun);
    else this.noteCalm();
    const isAnswered = failure === 'fault' || failure === 'overload';
    if (isAnswered ? this.row >= ANSWERED_FAILURES && this.limit === 1 : this.row >= UNREACHABLE_FAILURES) {
      this.deadSince = at.store;
      this.close(random);
      this.scheduleProbe(at.steady, random);
    }
  }

  pause(at: number): void {
    this.pausedAt = at;
  }

  /** Closes an endpoint that refuses everything: only probes go to it from now on. */
  refuse(at: WindowMoment, random: number): void {
    this.refusingSince = at.store;
    this.row = 0;
    this.probes = 0;
    this.close(random);
    this.scheduleProbe(at.steady, random);
  }

  refused(begun: number, now: number, random: number): void {
    this.inFlight -= 1;
    if (begun > this.begunAtClosure) this.scheduleProbe(now, random);
  }

  /** Applies what another process found: the endpoint is dead or refuses everything, or, with null, not. */
  hear(deadSince: number | null, refusingSince: number | null, random: number): void {
    const isSame = (this.deadSince === null) === (deadSince === null);
    if (isSame && (this.refusingSince === null) === (refusingSince === null)) return;
    this.deadSince = deadSince;
    this.refusingSince = refusingSince;
    this.row = 0;
    this.probes = 0;
    this.probeAt = Number.NEGATIVE_INFINITY;
    this.close(random);
  }

  resume(): void {
    this.pausedAt = null;
    this.probeSoon();
  }

  probeSoon(): void {
    this.probes = 0;
    this.probeAt = Number.NEGATIVE_INFINITY;
  }

  /** True if a whole round failed, or too much of several. */
  private isTooBad(begun: number): boolean {
    const isRound = begun > this.begunAtRow || this.row >= this.limit;
    return (isRound && this.row >= ROW) || this.answers.areTooBad;
  }

  decrease(): void {
    this.limit = Math.max(1, this.limit / 2);
    this.threshold = this.limit;
    this.begunAtDecrease = this.begun;
    this.startAnew();
    this.hasFailed = true;
  }

  /**
   * Undoes the last step of growth and waits there: if signs are rare, one during careful growth shows the endpoint's
   * limit. If they occur at any size, waiting is useless: the window grows until they are too many.
   */
  private stepBack(begun: number): void {
    this.calm = 0;
    if (begun <= this.begunAtStep) return;
    this.begunAtStep = this.begun;
    this.roundsWithSigns = Math.min(this.roundsWithSigns + 1, 4 * ACCUSTOMED);
    if (this.limit < this.threshold || this.isAccustomed) return;
    if (!this.isResting) this.floor = Math.max(1, this.limit * RETREAT);
    this.limit =
      this.answers.areFew && !this.hasFailed ? Math.max(1, this.limit / 2) : Math.max(this.floor, this.limit - 1);
    this.threshold = Math.min(this.threshold, this.limit);
    this.isResting = true;
    this.hasFailed = true;
  }

  private noteCalm(): void {
    this.calm += 1;
    if (this.calm < CALM * this.share.of * this.limit) return;
    this.calm = 0;
    this.isResting = false;
    this.roundsWithSigns = Math.floor(this.roundsWithSigns / 2);
  }

  /** True if signs occur at any size. */
  private get isAccustomed(): boolean {
    return this.roundsWithSigns > ACCUSTOMED;
  }

  /** An unused window has not shown that it could be larger. */
  private get mayGrow(): boolean {
    if (this.inFlight + 1 < this.limit / 2) return false;
    if (this.quickest < FAST_ANSWER && this.limit >= this.part(FAST_LIMIT)) return false;
    return this.limit < this.threshold || !this.isResting || this.isAccustomed;
  }

  /** After the outage it doubles up to the size for a new endpoint, then grows carefully. */
  private close(random: number): void {
    // Processes that share the endpoint should not grow in the same rounds.
    this.limit = this.share.of > 1 ? 1 + random : 1;
    this.threshold = this.part(INITIAL_LIMIT);
    this.begunAtClosure = this.begun;
    this.begunAtDecrease = 0;
    this.startAnew();
    this.hasFailed = false;
  }

  private startAnew(): void {
    this.answers.clear();
    this.roundsWithSigns = 0;
    this.isResting = false;
    this.calm = 0;
    this.quickest = Number.POSITIVE_INFINITY;
  }

  /**
   * Careful growth per round: one over all processes that share the endpoint, until something fails. From then on
   * mostly one of them decreases at a time, so they grow more slowly to fail no more often than a single window.
   */
  private get carefulGrowth(): number {
    const { of } = this.share;
    return this.hasFailed && !this.isAccustomed ? 1 / of ** 2 : 1 / of;
  }

  private part(limit: number): number {
    return Math.max(1, Math.floor(limit / this.share.of));
  }

  private scheduleProbe(now: number, random: number): void {
    this.probes += 1;
    // Not before half of the step, so that a dead endpoint is never rushed.
    this.probeAt = Math.ceil(now + backoff(this.probes, 0.5 + random / 2, PROBE_BASE, PROBE_CAP));
  }
}
