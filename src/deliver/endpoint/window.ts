import { backoff } from '../../kernel/retry.ts';
import { type Share, WHOLE } from '../share.ts';
import { Answers, type EndpointFailure } from './answers.ts';

/*
 * How many attempts may be in flight to one endpoint: congestion control, circuit breaker and ramp in one number, `limit`.
 *
 * An endpoint is open, or closed in one of three ways:
 *
 * - open: up to `limit` attempts.
 * - dead (`deadSince`): it answered nothing, or only errors, many times in a row. One probe at a time, with backoff. The first
 *   success opens it.
 * - refusing (`refusingSince`): it refuses everything. Probed the same way.
 * - paused (`pausedAt`): it answered 410. Nothing is sent until a person resumes it.
 *
 * While it is open, the window grows and shrinks in three phases, as in TCP:
 *
 * - fast: below `threshold`, each success adds one, so that the window doubles in a round.
 * - careful: above `threshold`, one more in each round. It stops where an endpoint that answers quickly has 64 in flight.
 * - resting: after a step back it stays as it is, until `CALM` rounds passed without a sign of overload.
 *
 * Signs of overload (timeouts, resets, 429, 503) cost it the last step of growth when they are rare (`stepBack`), and half of
 * its size, once in a round, when they are not (`decrease`). Where signs come at any size (`isAccustomed`), it grows on until
 * they are too many. Other 5xx count only once they are most of what the endpoint answers: until then they are taken for
 * the fault of a message. A "round" is as many attempts as were in flight: attempts are numbered by `begun`, and one with a
 * higher number than at the last decrease belongs to a later round.
 *
 * Processes that share an endpoint each get their part of every limit (`share`), and one of them probes.
 */

/** Attempts in flight to a new endpoint, and to any endpoint at most. */
const INITIAL_LIMIT = 16;
const MAX_LIMIT = 256;
/**
 * An endpoint that answers within this many milliseconds takes over a thousand a second with this many in flight. Its
 * quickest answer tells, for those of the moment grow with what is in flight, here as there.
 */
const FAST_ANSWER = 50;
const FAST_LIMIT = 64;
/** So many failures in a row, through a whole round, are no chance. */
const ROW = 3;
/** Failures in a row, with no success between, that make an endpoint dead: unreachable ones, and those of one that answers. */
const UNREACHABLE_FAILURES = 5;
const ANSWERED_FAILURES = 10;
/** Rounds without a sign of overload after which a window that met the endpoint's limit feels its way on. */
const CALM = 16;
/** Rounds with signs after which these are taken for what the endpoint says at any size. */
const ACCUSTOMED = 12;
/** The least share of a window that steps back leave, as long as signs are few. */
const RETREAT = 0.25;
/** Pause between probes of a closed endpoint, in milliseconds. */
const PROBE_BASE = 1_000;
const PROBE_CAP = 30_000;

/** A point in time, by the steady clock, which counts here, and in the store's time, which is kept. */
export interface WindowMoment {
  readonly steady: number;
  readonly store: number;
}

/** Why an endpoint takes nothing, and since when in the store's time; null where it is not so. */
interface Closure {
  /** Paused by a 410 until a person resumes it. */
  readonly pausedAt: number | null;
  /** It answers no probe. */
  readonly deadSince: number | null;
  /** It refuses everything. */
  readonly refusingSince?: number | null;
}

interface WindowOptions extends Closure {
  /** How many processes share the endpoint, each of which gets its part. */
  readonly share?: Share;
}

/**
 * How many attempts may be in flight to one endpoint. As TCP's, it grows with successes and halves with signs of
 * overload, down to one probe at a time. It is circuit breaker, fair share and ramp after an outage in one.
 */
export class Window {
  /** Attempts in flight now. */
  inFlight = 0;
  /** Attempts begun so far. A later one is of another round than what was answered before it. */
  begun = 0;
  /** Since when the endpoint answers no probe; null while it does. */
  deadSince: number | null;
  /** Paused by a 410 until a person resumes it. */
  pausedAt: number | null;
  /** Since when the endpoint refuses everything; null while it does not. */
  refusingSince: number | null;
  /** Earliest time of the next probe of a closed endpoint, by the steady clock. */
  probeAt = Number.NEGATIVE_INFINITY;
  private share: Share;
  private limit: number;
  /** Growth is fast below this, and careful above. */
  private threshold: number;
  private readonly answers = new Answers();
  /** How many attempts had begun at the last decrease (a step back is less), at the row's first failure, and when it died. */
  private begunAtDecrease = 0;
  private begunAtStep = 0;
  private begunAtRow = 0;
  private begunAtClosure = 0;
  /** Whether something failed since it opened that was worth a smaller window. */
  private hasFailed = false;
  /** Whether what fails is the endpoint, as far as is known: its first success, or three first tries in a row tell. */
  isAiling = true;
  /** Failures in a row. */
  private row = 0;
  private probes = 0;
  /** Answers since the last sign of overload, and rounds with signs; every calm halves their number. */
  private calm = 0;
  private roundsWithSigns = 0;
  /** Whether it waits after a step back, and below what it does not go then. */
  private isResting = false;
  private floor = 1;
  /** Milliseconds of the quickest answer since the last decrease. */
  private quickest = Number.POSITIVE_INFINITY;

  constructor({ pausedAt, deadSince, refusingSince = null, share = WHOLE }: WindowOptions) {
    this.pausedAt = pausedAt;
    this.deadSince = deadSince;
    this.refusingSince = refusingSince;
    this.share = share;
    this.threshold = this.part(this.open ? MAX_LIMIT : INITIAL_LIMIT);
    this.limit = deadSince === null && refusingSince === null ? this.part(INITIAL_LIMIT) : 1;
  }

  /** Takes a smaller part of what the endpoint was given, at once, or a larger one, which it grows into. */
  changeShare(share: Share): void {
    if (share.of > this.share.of) this.limit = Math.max(1, (this.limit * this.share.of) / share.of);
    this.share = share;
  }

  /** Takes attempts as they come, as opposed to one probe now and then, or none. */
  get open(): boolean {
    return this.deadSince === null && this.refusingSince === null && this.pausedAt === null;
  }

  /** Whether this process is the one that probes. */
  get leads(): boolean {
    return this.share.leads;
  }

  /** How many processes share the endpoint. */
  get sharers(): number {
    return this.share.of;
  }

  /** Attempts that may begin now, by the steady clock. */
  free(now: number): number {
    if (this.open) return Math.max(0, Math.floor(this.limit) - this.inFlight);
    if (this.pausedAt !== null) return 0;
    return this.share.leads && this.inFlight === 0 && now >= this.probeAt ? 1 : 0;
  }

  /** Attempts in flight at the present size, whether used or not. */
  get size(): number {
    return this.open ? Math.floor(this.limit) : 1;
  }

  /** Takes a place. */
  begin(): void {
    this.inFlight += 1;
    this.begun += 1;
  }

  /** Gives the place back of an attempt that was not made. */
  withdraw(): void {
    this.inFlight -= 1;
  }

  /**
   * The endpoint answered; a refusal of one message says nothing against its health.
   *
   * @param ms - how long it took: a fast endpoint gains nothing from more connections, a far one does
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
   * @param begun - how many had begun with the attempt itself: several failures of one round halve the window once
   * @param again - whether the message was tried before
   */
  failed(begun: number, failure: EndpointFailure, again: boolean, at: WindowMoment, random: number): void {
    this.inFlight -= 1;
    if (!this.open) {
      // Attempts that were in flight when the endpoint died say nothing new.
      if (begun > this.begunAtClosure) this.scheduleProbe(at.steady, random);
      return;
    }
    // A message that fails again where others succeed waits behind them, and costs them nothing.
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

  /** The endpoint refuses everything: only probes go to it from now on. */
  refuse(at: WindowMoment, random: number): void {
    this.refusingSince = at.store;
    this.row = 0;
    this.probes = 0;
    this.close(random);
    this.scheduleProbe(at.steady, random);
  }

  /** An endpoint that refuses everything refused one more. */
  refused(begun: number, now: number, random: number): void {
    this.inFlight -= 1;
    if (begun > this.begunAtClosure) this.scheduleProbe(now, random);
  }

  /** Another process found that the endpoint is dead or refuses everything, or, with null, that it is not so. */
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

  /** Has a closed endpoint probed at once. */
  probeSoon(): void {
    this.probes = 0;
    this.probeAt = Number.NEGATIVE_INFINITY;
  }

  /** A whole round failed, or too much of more than one. */
  private isTooBad(begun: number): boolean {
    const isRound = begun > this.begunAtRow || this.row >= this.limit;
    return (isRound && this.row >= ROW) || this.answers.areTooBad;
  }

  private decrease(): void {
    this.limit = Math.max(1, this.limit / 2);
    this.threshold = this.limit;
    this.begunAtDecrease = this.begun;
    this.startAnew();
    this.hasFailed = true;
  }

  /**
   * Takes the last step of growth back and waits there: where signs are rare, one that comes while the window feels its way
   * is the endpoint's limit. Where they come at any size, waiting is of no use: it grows on until they are too many.
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

  /** Signs come at any size. */
  private get isAccustomed(): boolean {
    return this.roundsWithSigns > ACCUSTOMED;
  }

  /** A window that is not used has not shown that it could be larger. */
  private get mayGrow(): boolean {
    if (this.inFlight + 1 < this.limit / 2) return false;
    if (this.quickest < FAST_ANSWER && this.limit >= this.part(FAST_LIMIT)) return false;
    return this.limit < this.threshold || !this.isResting || this.isAccustomed;
  }

  /** After the outage it doubles up to what a new endpoint gets, then feels its way. */
  private close(random: number): void {
    // Processes that share the endpoint shall not take their steps in the same rounds.
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
   * By how much it grows in a round where it feels its way: with all who share the endpoint by one, until something
   * fails. From then on mostly one of them decreases at a time, so they fail no oftener than a single window only if they
   * grow the less for it.
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
    // Not before half of the step, so that a dead endpoint is never hurried.
    this.probeAt = Math.ceil(now + backoff(this.probes, 0.5 + random / 2, PROBE_BASE, PROBE_CAP));
  }
}
