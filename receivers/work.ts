import { type Awaitable, after, attempt } from './after.ts';
import type { Dispatch } from './dispatch.ts';
import type { Leases } from './leases.ts';
import type { Parsed } from './messages.ts';
import type { Handlers, Log, ReceiverClock } from './options.ts';
import * as reply from './reply.ts';
import type { Report } from './report.ts';
import type { OpenRequest } from './request.ts';
import type { Opened, Opening, ReceiverStore } from './store.ts';

/** One message on its way through the store to its handlers. */
export interface Task {
  readonly parsed: Parsed;
  readonly request: OpenRequest;
  readonly log: Log;
}

export interface WorkParts {
  readonly on: Handlers;
  readonly dispatch: Dispatch;
  readonly store: ReceiverStore;
  readonly leases: Leases;
  readonly clock: ReceiverClock;
  readonly report: Report;
}

export interface Work {
  /** Runs the handlers; fails as they fail. */
  handle(parsed: Parsed, request: OpenRequest): Awaitable<reply.Reply>;
  /** Begins a task in the store, handles it if it is ours, and ends it there. Never fails. */
  run(task: Task): Awaitable<reply.Reply>;
}

/** Milliseconds between two looks at a change of the same name that another process has. */
const BUSY_STEP = 100;

export function createWork({ on, dispatch, store, leases, clock, report }: WorkParts): Work {
  function handle(parsed: Parsed, request: OpenRequest): Awaitable<reply.Reply> {
    if (parsed.ok)
      return on.around === undefined ? dispatch(parsed.message, parsed.known, request) : within(parsed, request);
    const { reason, detail } = parsed;
    if (on.invalid === undefined) return reply.refusal(400, reason, detail);
    return after(on.invalid({ reason, detail }, request), () => reply.quarantined);
  }

  async function within(parsed: Parsed & { ok: true }, request: OpenRequest): Promise<reply.Reply> {
    let answer: reply.Reply | undefined;
    await on.around?.(parsed.message, request, async () => {
      answer = await dispatch(parsed.message, parsed.known, request);
    });
    if (answer === undefined) throw new Error('around has not called next, or has not waited for it');
    return answer;
  }

  function begin(task: Task, opening: Opening): Awaitable<reply.Reply> {
    return attempt(
      () => store.begin(opening),
      (state) => (state === 'new' ? work(task, opening) : otherwise(state, task, opening)),
      (error) => {
        report(error, { stage: 'store', request: task.request }, task.log);
        return reply.storeFailed;
      },
    );
  }

  /** A change of the same user that another process has will soon be done: only the deadline ends the wait. */
  function otherwise(state: Exclude<Opened, 'new'>, task: Task, opening: Opening): Awaitable<reply.Reply> {
    if (state === 'done') return reply.duplicate;
    if (state === 'stale') return reply.stale;
    if (state === 'running' || task.request.isExpired) return reply.inProgress;
    return new Promise<void>((resolve) => clock.after(BUSY_STEP, resolve)).then(() => begin(task, opening));
  }

  function work(task: Task, opening: Opening | undefined): Awaitable<reply.Reply> {
    const { parsed, request, log } = task;
    return attempt(
      () => {
        const handled = handle(parsed, request);
        return handled instanceof Promise ? leases.keep(request, handled, log) : handled;
      },
      (answer) => settle(task, opening, answer),
      (error) => {
        const message = parsed.ok ? parsed.message : undefined;
        report(error, { stage: parsed.ok ? 'handler' : 'invalid', late: request.isExpired, message, request }, log);
        return settle(task, opening, reply.failed);
      },
    );
  }

  /** Failures of the store that come after the handlers' verdict do not change the answer. */
  function settle({ request, log }: Task, opening: Opening | undefined, answer: reply.Reply): Awaitable<reply.Reply> {
    if (opening === undefined) return answer;
    return attempt(
      () => (answer.status === 200 ? store.done(opening) : after(store.release(opening), () => true)),
      (ours) => {
        if (!ours) report(new Error('another process has handled it meanwhile'), { stage: 'store', request }, log);
        return answer;
      },
      (error) => {
        report(error, { stage: 'store', request }, log);
        return answer;
      },
    );
  }

  return {
    handle,
    run(task) {
      const { opening } = task.request;
      return opening === undefined ? work(task, undefined) : begin(task, opening);
    },
  };
}
