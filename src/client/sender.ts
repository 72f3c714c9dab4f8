import type { Clock } from './clock.ts';
import { classify, type Outcome } from './outcome.ts';
import type { Batch, Log, Transport } from './platform.ts';

const FIRST_BACKOFF = 200;
const LONGEST_BACKOFF = 30_000;

/** The final result of a batch. */
export type Settled = Exclude<Outcome, { kind: 'retry' }> | { kind: 'expired'; message: string; status?: number };

export interface SenderWork {
  clock: Clock;
  log: Log;
  transport: Transport;
  /** Milliseconds from a batch's first message to its last try. */
  retryFor: number;
  /** How often a batch is tried again at most. */
  maxRetries: number;
  /** The batch to send now, if any; asked again after each one is settled. */
  next(): Batch | undefined;
  settled(batch: Batch, outcome: Settled): void;
  /** A batch failed and is tried again in `wait` milliseconds. */
  failed(failure: { message: string; status?: number }, wait: number): void;
}

/** Sends one batch at a time, each as often as it takes, so that the order of the calls is kept through retries. */
export class Sender {
  readonly #work: SenderWork;
  #running = false;
  #stopped = false;
  #failures = 0;
  /** Ends the current wait early; undefined when not waiting. */
  #endWait: (() => void) | undefined;
  /** The service named the time to come back, and we obey. */
  #told = false;
  #posting: Batch | undefined;

  constructor(work: SenderWork) {
    this.#work = work;
  }

  /** The batch whose request is under way, if one is. */
  get posting(): Batch | undefined {
    return this.#posting;
  }

  /** Starts sending if there is something to send. */
  wake(): void {
    if (!this.#running && !this.#stopped) this.#run();
  }

  /** Somebody waits: try now rather than at the end of a back-off, unless the service said when. */
  hurry(): void {
    this.#failures = 0;
    if (!this.#told) this.#endWait?.();
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
    this.#running = true;
    for (let batch = this.#work.next(); batch; batch = this.#work.next()) {
      const outcome = await this.#deliver(batch);
      if (!outcome) break;
      this.#work.settled(batch, outcome);
    }
    this.#running = false;
  }

  /** @returns undefined if stopped meanwhile */
  async #deliver(batch: Batch): Promise<Settled | undefined> {
    const { clock, transport, retryFor, maxRetries } = this.#work;
    for (let retries = 0; ; retries++) {
      this.#posting = batch;
      const answer = await transport.post(batch.body(new Date(clock.now()).toISOString()));
      if (this.#stopped) return undefined;
      this.#posting = undefined;
      const outcome = classify(answer, clock.now());
      if (outcome.kind !== 'retry') {
        this.#failures = 0;
        return outcome;
      }
      const wait = Math.max(outcome.retryAfter ?? 0, this.#backoff());
      if (retries >= maxRetries || clock.now() + wait - batch.since > retryFor) return { ...outcome, kind: 'expired' };
      this.#work.failed(outcome, wait);
      this.#work.log('%s; trying %d messages again in %d ms', outcome.message, batch.count, Math.ceil(wait));
      await this.#wait(wait, outcome.retryAfter !== undefined);
      if (this.#stopped) return undefined;
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
