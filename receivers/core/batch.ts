import { later } from './breaks.ts';
import { type Deadlines, Timed } from './deadlines.ts';
import { type Asker, Job } from './job.ts';
import { batched, type ItemRejection, unhandled as noHandler, type Reply } from './reply.ts';

/** Messages of one batch that are handled concurrently. */
const CONCURRENCY = 16;
/** After this many messages, or milliseconds, the run yields to other requests and to the deadline. */
const BREAK_AFTER = 512;
const BREAK_MS = 4;
/** The clock is read once per this many messages. */
const LOOK_EVERY = 16;

export interface BatchParts {
  readonly size: number;
  /** Unfinished messages are rejected for retry at this time, in milliseconds since 1970. */
  readonly deadline: number;
  readonly waits: Deadlines;
  now(): number;
  /** Handles a message. Returns its answer if that is available at once, else the job that will have it. */
  handle(index: number): Reply | Job;
  /** Called once all messages have their answers, or at the deadline. */
  answered(reply: Reply): void;
  /** Called instead if the run fails. */
  failed(error: unknown): void;
}

/** Handles the messages of one request, a few at a time. */
export class BatchRun extends Timed implements Asker {
  readonly #parts: BatchParts;
  /** For each message the answer, or the job that will have it; undefined before it is begun. */
  readonly #states: (Reply | Job | undefined)[];
  #working = 0;
  #next = 0;
  #left: number;
  #begun = 0;
  #since = 0;
  #hasBreak = false;
  #hasEnded = false;

  constructor(parts: BatchParts) {
    super(parts.deadline);
    this.#parts = parts;
    this.#left = parts.size;
    this.#states = new Array(parts.size).fill(undefined);
  }

  start(): void {
    try {
      if (this.#begun === 0) this.#since = this.#parts.now();
      while (this.#next < this.#parts.size && this.#working < CONCURRENCY && !this.#hasBreak && !this.#hasEnded) {
        if (this.#isBreakDue()) this.#pause();
        else this.#begin(this.#next++);
      }
    } catch (error) {
      this.#hasEnded = true;
      this.#parts.waits.unwatch(this);
      this.#parts.failed(error);
    }
  }

  answered(reply: Reply, index: number): void {
    this.#working -= 1;
    this.#answer(index, reply);
    this.start();
  }

  /** Begins nothing more. Asks the sender to retry unfinished messages. */
  expired(): void {
    this.#hasEnded = true;
    this.#parts.answered(batchReply(this.#states));
    for (const state of this.#states) if (state instanceof Job) state.request.expire();
  }

  #begin(index: number): void {
    this.#begun += 1;
    const given = this.#parts.handle(index);
    if (!(given instanceof Job)) return void this.#answer(index, given);
    this.#working += 1;
    this.#states[index] = given;
    given.ask(this, index);
  }

  #answer(index: number, reply: Reply): void {
    this.#states[index] = reply;
    this.#left -= 1;
    if (this.#left > 0 || this.#hasEnded) return;
    this.#parts.waits.unwatch(this);
    this.#parts.answered(batchReply(this.#states));
  }

  #isBreakDue(): boolean {
    if (this.#begun >= BREAK_AFTER) return true;
    return this.#begun > 0 && this.#begun % LOOK_EVERY === 0 && this.#parts.now() - this.#since >= BREAK_MS;
  }

  #pause(): void {
    this.#hasBreak = true;
    later(() => {
      this.#hasBreak = false;
      this.#begun = 0;
      this.start();
    });
  }
}

/** Combines the answers to the messages of a batch. Messages without one are to be retried. */
export function batchReply(states: readonly (Reply | Job | undefined)[]): Reply {
  const rejected: ItemRejection[] = [];
  const unhandled: number[] = [];
  states.forEach((state, index) => {
    // A message is retried exactly if it would be retried on its own.
    if (state === undefined || state instanceof Job) rejected.push({ index, code: 'deadline', retry: true });
    else if (state.status >= 300) rejected.push({ index, code: state.code ?? 'failed', retry: state.status >= 500 });
    else if (state === noHandler) unhandled.push(index);
  });
  return batched(rejected, unhandled);
}
