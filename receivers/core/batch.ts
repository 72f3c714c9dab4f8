import { later } from './breaks.ts';
import { Timed } from './deadlines.ts';
import { type Asker, Job } from './job.ts';
import { batched, type ItemRejection, type Reply } from './reply.ts';

/** Messages of one batch that are handled at once. */
const CONCURRENCY = 16;
/** After so many messages, or milliseconds, there is a break, in which other requests and the deadline can come. */
const BREAK_AFTER = 512;
const BREAK_MS = 4;
/** The clock is looked at before each of so many. */
const LOOK_EVERY = 16;

export interface BatchParts {
  readonly size: number;
  /** When what is not done is to be sent again, in milliseconds since 1970. */
  readonly deadline: number;
  now(): number;
  /** Handles a message: its answer if that is there at once, else the job that will have it. */
  handle(index: number): Reply | Job;
  /** Called once all messages have their answers, or at the deadline. */
  finished(reply: Reply, run: BatchRun): void;
}

/** Handles the messages of one request, a few at a time. */
export class BatchRun extends Timed implements Asker {
  readonly #parts: BatchParts;
  /** Of each message its answer, or the job that will have it; undefined before it is begun. */
  readonly #states: (Reply | Job | undefined)[];
  #working = 0;
  #next = 0;
  #left: number;
  #begun = 0;
  #since: number;
  #hasBreak = false;
  #hasEnded = false;

  constructor(parts: BatchParts) {
    super(parts.deadline);
    this.#parts = parts;
    this.#left = parts.size;
    this.#states = new Array(parts.size).fill(undefined);
    this.#since = parts.now();
  }

  start(): void {
    while (this.#next < this.#parts.size && this.#working < CONCURRENCY && !this.#hasBreak && !this.#hasEnded) {
      if (this.#isBreakDue()) this.#pause();
      else this.#begin(this.#next++);
    }
  }

  answered(reply: Reply, index: number): void {
    this.#working -= 1;
    this.#answer(index, reply);
    this.start();
  }

  /** Nothing more is begun, and what is not done yet is to be sent again. */
  expired(): void {
    this.#hasEnded = true;
    this.#parts.finished(batchReply(this.#states), this);
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
    if (this.#left === 0 && !this.#hasEnded) this.#parts.finished(batchReply(this.#states), this);
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
      this.#since = this.#parts.now();
      this.start();
    });
  }
}

/** The answer to a batch, from those to its messages; those that have none yet are to be sent again. */
export function batchReply(states: readonly (Reply | Job | undefined)[]): Reply {
  const rejected: ItemRejection[] = [];
  states.forEach((state, index) => {
    // A message that would be refused alone must not come again; one that would be retried must.
    if (state === undefined || state instanceof Job) rejected.push({ index, code: 'deadline', retry: true });
    else if (state.status >= 300) rejected.push({ index, code: state.code ?? 'failed', retry: state.status >= 500 });
  });
  return batched(rejected);
}
