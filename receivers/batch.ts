import type { Awaitable } from './after.ts';
import { batched, type Rejection, type Reply } from './reply.ts';

/** Messages of one batch that are handled at once. */
const CONCURRENCY = 16;
/** Handlers that answer at once are given a break after so many, in which the deadline can come. */
const BREAK_AFTER = 64;

/** Not every runtime has the quick one. */
const later: (callback: () => void) => void = globalThis.setImmediate ?? ((callback) => setTimeout(callback, 0));

/** Handles the messages of one request, a few at a time. */
export interface BatchRun {
  /** The answer once all messages have theirs, or the batch has ended. */
  finish(): Promise<Reply>;
  /** Nothing more is begun. */
  end(): void;
  /** What to answer now: what is not done yet is to be sent again. */
  reply(): Reply;
}

export function runBatch(size: number, handle: (index: number) => Awaitable<Reply>): BatchRun {
  const replies: (Reply | undefined)[] = new Array(size).fill(undefined);
  let next = 0;
  let ended = false;

  async function work(): Promise<void> {
    for (let atOnce = 0; next < size && !ended; ) {
      const index = next;
      next += 1;
      const reply = handle(index);
      if (reply instanceof Promise) {
        replies[index] = await reply;
        atOnce = 0;
        continue;
      }
      replies[index] = reply;
      atOnce += 1;
      if (atOnce % BREAK_AFTER === 0) await new Promise<void>((resolve) => later(resolve));
    }
  }

  const reply = () => batched(replies.flatMap((each, index) => rejection(index, each) ?? []));
  return {
    async finish() {
      await Promise.all(Array.from({ length: Math.min(CONCURRENCY, size) }, work));
      return reply();
    },
    end() {
      ended = true;
    },
    reply,
  };
}

/** What would have been refused alone is not to come again; what would have been retried is. */
function rejection(index: number, reply: Reply | undefined): Rejection | undefined {
  if (reply === undefined) return { index, code: 'deadline', retry: true };
  if (reply.status < 300) return undefined;
  return { index, code: reply.code ?? 'failed', retry: reply.status >= 500 };
}
