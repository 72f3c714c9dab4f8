import type { ClientClock } from './clock.ts';
import { classify, type SendOutcome } from './outcome.ts';
import type { DebugLog, SentBatch, Transport } from './platform.ts';

const FIRST_BACKOFF = 200;
const LONGEST_BACKOFF = 30_000;
/** Milliseconds without an answer after which somebody else may send, where a loop can end unheard. */
const UNHEARD = 3_000;

/** The final result of a batch. */
export type Settled = Exclude<SendOutcome, { kind: 'retry' }> | { kind: 'expired'; message: string; status?: number };

export interface SenderWork {
  clock: ClientClock;
  log: DebugLog;
  transport: Transport;
  /** Milliseconds from a batch's first message to its last try. */
  retryFor: number;
  /** How often a batch is tried again at most. */
  maxRetries: number;
  /** The batch to send now, if any; asked again after each one is settled. */
  next(): SentBatch | undefined;
  /** Whether somebody waits to send the next one, so that the loop ends after a batch. */
  endsAfterBatch(): boolean;
  settled(batch: SentBatch, outcome: Settled): void;
  /** A batch failed and is tried again in `wait` milliseconds. */
  failed(failure: { message: string; status?: number }, wait: number): void;
}

/** Sends one batch at a time, each as often as it takes, so that the order of the calls is kept through retries. */
export class BatchSender {
  readonly #work: SenderWork;
  /** The loop that sends. */
  #loop: object | undefined;
  /** When it should have been heard of, in milliseconds since 1970. */
  #due = 0;
  #stopped = false;
  #failures = 0;
  /** Of the batch that is sent now. */
  #retries = 0;
  /** Ends the current wait early; undefined when not waiting. */
  #endWait: (() => void) | undefined;
  /** The service named the time to come back, and we obey. */
  #told = false;
  #posting: SentBatch | undefined;

  constructor(work: SenderWork) {
    this.#work = work;
  }

  /** The batch whose request is under way, if one is. */
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
   * As `wake`, also if another loop has begun that was not heard of for too long.
   *
   * @returns whether there was such a loop
   */
  takeOver(): boolean {
    const isLost = this.#loop !== undefined && this.#work.clock.now() > this.#due + UNHEARD;
    if (isLost) this.#loop = undefined;
    this.wake();
    return isLost;
  }

  /** Somebody waits: try now rather than at the end of a back-off, unless the service said when. */
  hurry(): void {
    this.#failures = 0;
    if (!this.#told && this.#endWait) {
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

  /** As `stop`, but what is in flight may arrive. */
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
      // One that was taken over is heard too, but goes no further.
      if (outcome) {
        this.#retries = 0;
        settled(batch, outcome);
      }
      if (loop !== this.#loop) return;
      if (!outcome || endsAfterBatch()) break;
    }
    this.#loop = undefined;
  }

  /** @returns undefined if stopped or taken over meanwhile */
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
      this.#work.log('%s; trying %d messages again in %d ms', outcome.message, batch.count, Math.ceil(wait));
      await this.#wait(wait, outcome.retryAfter !== undefined);
      if (this.#stopped || loop !== this.#loop) return undefined;
    }
  }

  /** Exponential with full jitter, so that many clients do not come back at once. */
  #backoff(): number {
    const longest = Math.min(FIRST_BACKOFF * 2 ** this.#failures++, LONGEST_BACKOFF);
    return this.#work.clock.random() * longest;
  }

  #wait(ms: number, told: boolean): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        cancel();
        this.#endWait = undefined;
        this.#told = false;
        resolve();
      };
      const cancel = this.#work.clock.after(ms, done);
      this.#endWait = done;
      this.#told = told;
    });
  }
}
