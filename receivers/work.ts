import { type Awaitable, after, isThenable } from './after.ts';
import type { Job } from './job.ts';
import type { Leases } from './leases.ts';
import type { Parsed } from './messages.ts';
import type { Handlers, ReceiverClock } from './options.ts';
import * as reply from './reply.ts';
import type { Report } from './report.ts';
import type { OpenRequest } from './request.ts';
import { createSteps } from './steps.ts';
import type { Opened, Opening, ReceiverStore } from './store.ts';

export interface WorkParts {
  readonly on: Handlers;
  readonly store: ReceiverStore;
  readonly leases: Leases;
  readonly clock: ReceiverClock;
  readonly report: Report;
  /** Takes the answer of a job that went on. */
  ended(job: Job, answer: reply.Reply): void;
}

export interface Work {
  /** Runs the handlers; fails as they fail. */
  handle(parsed: Parsed, request: OpenRequest): Awaitable<reply.Reply>;
  /** Begins a job in the store, handles it if it is ours, and ends it there. Never fails. */
  run(job: Job): Answer;
}

/** The answer if it is there at once; else `ended` gets it. */
type Answer = reply.Reply | undefined;

/** Milliseconds between two looks at a change of the same name that another process has. */
const BUSY_STEP = 100;
const TAKEN = 'another process has handled it meanwhile';

export function createWork({ on, store, leases, clock, report, ended }: WorkParts): Work {
  const stepOf = createSteps(on);

  function handle(parsed: Parsed, request: OpenRequest): Awaitable<reply.Reply> {
    if (!parsed.ok) return refused(parsed, request);
    if (on.around !== undefined) return around(parsed, request);
    const { call, answer } = stepOf(parsed.message, parsed.known);
    return after(call(parsed.message as never, request), () => answer);
  }

  function refused({ reason, detail }: Parsed & { ok: false }, request: OpenRequest): Awaitable<reply.Reply> {
    if (on.invalid === undefined) return reply.refusal(400, reason, detail);
    return after(on.invalid({ reason, detail }, request), () => reply.quarantined);
  }

  async function around({ message, known }: Parsed & { ok: true }, request: OpenRequest): Promise<reply.Reply> {
    const { call, answer } = stepOf(message, known);
    let hasReturned = false;
    await on.around?.(message, request, async () => {
      await call(message as never, request);
      hasReturned = true;
    });
    if (!hasReturned) throw new Error('around has not called next, or has not waited for it');
    return answer;
  }

  // No closure and no promise from here to the handler that is not needed: they are once per message, and cost a busy
  // receiver as much as its signature.

  function run(job: Job): Answer {
    const { opening } = job.request;
    try {
      return opening === undefined ? work(job) : begin(opening, job);
    } catch (error) {
      return unforeseen(error, job);
    }
  }

  /** Takes the next step with what a promise brings. */
  function later<T>(promise: Promise<T>, job: Job, done: Next<T>, failed: Next<unknown>): undefined {
    Promise.resolve(promise).then(
      (value) => goOn(job, done, value),
      (error) => goOn(job, failed, error),
    );
  }

  function goOn<T>(job: Job, next: Next<T>, value: T): void {
    let answer: Answer;
    try {
      answer = next(value, job);
    } catch (error) {
      answer = unforeseen(error, job);
    }
    if (answer !== undefined) ended(job, answer);
  }

  function unforeseen(error: unknown, { request, log }: Job): reply.Reply {
    report(error, { stage: 'host', request }, log);
    return reply.crashed;
  }

  function begin(opening: Opening, job: Job): Answer {
    let state: Awaitable<Opened>;
    try {
      state = store.begin(opening);
    } catch (error) {
      return notBegun(error, job);
    }
    return isThenable(state) ? later(state, job, begun, notBegun) : begun(state, job);
  }

  function notBegun(error: unknown, { request, log }: Job): reply.Reply {
    report(error, { stage: 'store', request }, log);
    return reply.storeFailed;
  }

  /** A change of the same user that another process has will soon be done: only the deadline ends the wait. */
  function begun(state: Opened, job: Job): Answer {
    if (state === 'new') return work(job);
    if (state === 'done') return reply.duplicate;
    if (state === 'stale') return reply.stale;
    const { isExpired, opening } = job.request;
    if (state === 'running' || isExpired || opening === undefined) return reply.inProgress;
    clock.after(BUSY_STEP, () => goOn(job, begin, opening));
    return undefined;
  }

  function work(job: Job): Answer {
    const { parsed, request } = job;
    let result: unknown;
    try {
      if (parsed.ok && on.around === undefined) {
        const { call, answer } = stepOf(parsed.message, parsed.known);
        job.answer = answer;
        result = call(parsed.message as never, request);
      } else result = handle(parsed, request);
    } catch (error) {
      return failed(error, job);
    }
    if (!isThenable(result)) return handled(result, job);
    leases.hold(job, giveUp);
    return later(result, job, handledLater, failedLater);
  }

  /** The result of `handle` is the answer itself. */
  function handled(result: unknown, job: Job): Answer {
    return settle(job.answer ?? (result as reply.Reply), job);
  }

  function handledLater(result: unknown, job: Job): Answer {
    return leases.end(job) ? handled(result, job) : undefined;
  }

  function failedLater(error: unknown, job: Job): Answer {
    return leases.end(job) ? failed(error, job) : undefined;
  }

  function failed(error: unknown, job: Job): Answer {
    const { parsed, request, log } = job;
    const message = parsed.ok ? parsed.message : undefined;
    report(error, { stage: parsed.ok ? 'handler' : 'invalid', late: request.isExpired, message, request }, log);
    return settle(reply.failed, job);
  }

  function giveUp(job: Job): void {
    goOn(job, settle, reply.failed);
  }

  /** Failures of the store that come after the handlers' verdict do not change the answer. */
  function settle(answer: reply.Reply, job: Job): Answer {
    const { opening } = job.request;
    job.answer = answer;
    if (opening === undefined) return answer;
    let ours: Awaitable<boolean>;
    try {
      ours = answer.status === 200 ? store.done(opening) : after(store.release(opening), () => true);
    } catch (error) {
      return notSettled(error, job);
    }
    return isThenable(ours) ? later(ours, job, settled, notSettled) : settled(ours, job);
  }

  function settled(isOurs: boolean, job: Job): Answer {
    return isOurs ? job.answer : notSettled(new Error(TAKEN), job);
  }

  function notSettled(error: unknown, { request, log, answer }: Job): Answer {
    report(error, { stage: 'store', request }, log);
    return answer;
  }

  return { handle, run };
}

/** A step of a job: its answer, unless it goes on. */
type Next<T> = (value: T, job: Job) => Answer;
