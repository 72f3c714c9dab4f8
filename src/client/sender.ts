import type { ClientClock } from './clock.ts';
import { classify, type SendOutcome } from './outcome.ts';
import type { DebugLog, SentBatch, Transport } from './platform.ts';

const FIRST_BACKOFF = 200;
const LONGEST_BACKOFF = 30_000;
/** A loop that is overdue by this many milliseconds counts as lost: it may have ended with the host's request. */
const UNHEARD = 3_000;

/** The final result of a batch. */
export type Settled = Exclude<SendOutcome, { kind: 'retry' }> | { kind: 'expired'; message: string; status?: number };

export interface SenderWork {
  clock: ClientClock;
  log: DebugLog;
  transport: Transport;
  /** Milliseconds from a batch's first message to its last try. */
  retryFor: number;
  /** Most retries of a batch. */
  maxRetries: number;
  /** The batch to send now, if any; called again after each one is settled. */
  next(): SentBatch | undefined;
  /** True if a caller waits to send the next batch itself: the loop then ends after this one. */
  endsAfterBatch(): boolean;
  settled(batch: SentBatch, outcome: Settled): void;
  /** A batch failed and will be retried in `wait` milliseconds. */
  failed(failure: { message: string; status?: number }, wait: number): void;
}

/** Sends one batch at a time, retries included, so that messages arrive in the order of the calls. */
export class BatchSender {
  readonly #work: SenderWork;
  /** The running send loop. */
  #loop: object | undefined;
  /** Start of the loop's request or end of its wait, in milliseconds since 1970. */
  #due = 0;
  #stopped = false;
  #failures = 0;
  /** Retries of the current batch. */
  #retries = 0;
  /** Ends the current wait early; undefined when not waiting. */
  #endWait: (() => void) | undefined;
  /** True while waiting for a time that the service asked for. */
  #isWaitRequested = false;
  #posting: SentBatch | undefined;

  constructor(work: SenderWork) {
    this.#work = work;
  }

  /** The batch whose request is in flight, if any. */
  get posting(): SentBatch | undefined {
    return this.#posting;
  }

  get isStopped(): boolean {
    return this.#stopped;
  }

  /** Starts sending if there is something to send. */
  wake(): void {
    if (!this.#loop && !this.#stopped) this.#run();
  }

  /**
   * Like `wake`, but also replaces a loop that is overdue for too long.
   *
   * @returns true if a loop was replaced
   */
  takeOver(): boolean {
    const isLost = this.#loop !== undefined && this.#work.clock.now() > this.#due + UNHEARD;
    if (isLost) this.#loop = undefined;
    this.wake();
    return isLost;
  }

  /** Sends without waiting for the end of a back-off, unless the service asked for the wait. */
  hurry(): void {
    this.#failures = 0;
    if (!this.#isWaitRequested && this.#endWait) {
      this.#due = this.#work.clock.now();
      this.#endWait();
    }
    this.wake();
  }

  /** Sends nothing more; the batch in flight stays unsettled. */
  stop(): void {
    this.leave();
    this.#work.transport.close();
  }

  /** Like `stop`, but lets the request in flight arrive. */
  leave(): void {
    this.#stopped = true;
    this.#endWait?.();
  }

  async #run(): Promise<void> {
    const { next, settled, endsAfterBatch } = this.#work;
    const loop = {};
    this.#loop = loop;
    for (let batch = next(); batch; batch = next()) {
      const outcome = await this.#deliver(batch, loop);
      // A loop that was replaced still reports its result, but sends no more.
      if (outcome) {
        this.#retries = 0;
        settled(batch, outcome);
      }
      if (loop !== this.#loop) return;
      if (!outcome || endsAfterBatch()) break;
    }
    this.#loop = undefined;
  }

  /** @returns undefined if stopped or replaced in the meantime */
  async #deliver(batch: SentBatch, loop: object): Promise<Settled | undefined> {
    const { clock, transport, retryFor, maxRetries } = this.#work;
    for (; ; this.#retries++) {
      this.#posting = batch;
      this.#due = clock.now();
      const answer = await transport.post(batch.body(new Date(clock.now()).toISOString()));
      if (this.#stopped) return undefined;
      this.#posting = undefined;
      const outcome = classify(answer, clock.now());
      if (outcome.kind !== 'retry') {
        this.#failures = 0;
        return outcome;
      }
      if (loop !== this.#loop) return undefined;
      const wait = Math.max(outcome.retryAfter ?? 0, this.#backoff());
      const isLast = this.#retries >= maxRetries || clock.now() + wait - batch.since > retryFor;
      if (isLast) return { ...outcome, kind: 'expired' };
      this.#due = clock.now() + wait;
      this.#work.failed(outcome, wait);
      this.#work.log('%s; retrying %d messages in %d ms', outcome.message, batch.count, Math.ceil(wait));
      await this.#wait(wait, outcome.retryAfter !== undefined);
      if (this.#stopped || loop !== this.#loop) return undefined;
    }
  }

  /** Exponential with full jitter, so that many clients do not retry at once. */
  #backoff(): number {
    const longest = Math.min(FIRST_BACKOFF * 2 ** this.#failures++, LONGEST_BACKOFF);
    return this.#work.clock.random() * longest;
  }

  #wait(ms: number, isRequested: boolean): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        cancel();
        this.#endWait = undefined;
        this.#isWaitRequested = false;
        resolve();
      };
      const cancel = this.#work.clock.after(ms, done);
      this.#endWait = done;
      this.#isWaitRequested = isRequested;
    });
  }
}
