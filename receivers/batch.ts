import { batched, type Rejection, type Reply } from './reply.ts';

/** Messages of one batch that are handled at once. */
const CONCURRENCY = 16;
/** After so many begun there is a break, in which other requests and the deadline can come. */
const BREAK_AFTER = 64;

/** Not every runtime has the quick one. */
const later: (callback: () => void) => void = globalThis.setImmediate ?? ((callback) => setTimeout(callback, 0));

export interface BatchParts {
  readonly size: number;
  /** Handles a message: its answer if that is there at once, else it goes to `answered`. */
  handle(index: number, answered: (reply: Reply) => void): Reply | undefined;
  /** Called once all messages have their answers. */
  finished(reply: Reply): void;
}

/** Handles the messages of one request, a few at a time. By callbacks: promises cost as much as checking a message. */
export class BatchRun {
  readonly #parts: BatchParts;
  readonly #replies: (Reply | undefined)[];
  #next = 0;
  #working = 0;
  #left: number;
  #begun = 0;
  #hasBreak = false;
  #hasEnded = false;

  constructor(parts: BatchParts) {
    this.#parts = parts;
    this.#left = parts.size;
    this.#replies = new Array(parts.size).fill(undefined);
  }

  start(): void {
    while (this.#next < this.#parts.size && this.#working < CONCURRENCY && !this.#hasBreak && !this.#hasEnded) {
      if (this.#begun === BREAK_AFTER) this.#pause();
      else this.#begin(this.#next++);
    }
  }

  /** Nothing more is begun. The answer for now: what is not done yet is to be sent again. */
  end(): Reply {
    this.#hasEnded = true;
    return batchReply(this.#replies);
  }

  #begin(index: number): void {
    this.#begun += 1;
    const reply = this.#parts.handle(index, (given) => {
      this.#working -= 1;
      this.#answer(index, given);
      this.start();
    });
    if (reply === undefined) this.#working += 1;
    else this.#answer(index, reply);
  }

  #answer(index: number, reply: Reply): void {
    this.#replies[index] = reply;
    this.#left -= 1;
    if (this.#left === 0) this.#parts.finished(batchReply(this.#replies));
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

/** The answer to a batch, from those to its messages; those that have none are to be sent again. */
export const batchReply = (replies: readonly (Reply | undefined)[]): Reply =>
  batched(replies.flatMap((each, index) => rejection(index, each) ?? []));

/** What would have been refused alone is not to come again; what would have been retried is. */
function rejection(index: number, reply: Reply | undefined): Rejection | undefined {
  if (reply === undefined) return { index, code: 'deadline', retry: true };
  if (reply.status < 300) return undefined;
  return { index, code: reply.code ?? 'failed', retry: reply.status >= 500 };
}
