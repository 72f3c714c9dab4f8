import type { Handlers, Log, ReceiverClock } from '../options.ts';
import type { Message, Parsed, UnknownMessage } from '../parse/messages.ts';
import type { Opened, Opening, ReceiverStore } from '../store.ts';
import { type Awaitable, after, isThenable } from './after.ts';
import type { Job } from './job.ts';
import type { HandlerLeases } from './leases.ts';
import * as reply from './reply.ts';
import type { ReportFailure } from './report.ts';
import type { OpenRequest } from './request.ts';
import { createSteps, type HandlerStep, type StepOf, type Steps, untried } from './steps.ts';

interface WorkParts {
  readonly on: Handlers;
  /** Run handlers for tests with real users too. */
  readonly takesTests: boolean;
  readonly store: ReceiverStore;
  readonly leases: HandlerLeases;
  readonly clock: ReceiverClock;
  readonly report: ReportFailure;
  /** Receives the answer of an asynchronous job. */
  ended(job: Job, answer: reply.Reply): void;
}

export interface Work {
  /** Runs the handlers. Fails if they fail. */
  handle(parsed: Parsed, request: OpenRequest, log: Log): Awaitable<reply.Reply>;
  /** Begins a job in the store, handles it if it is ours, and ends it there. Never fails. */
  run(job: Job): Answer;
  readonly changeOf: Steps['changeOf'];
}

export function createWork(parts: WorkParts): Work {
  const { stepOf, changeOf } = createSteps(parts.on, parts.takesTests);
  const place: JobParts = { ...parts, stepOf, giveUp: (job) => goOn(place, job, settle, reply.failed) };
  return {
    handle: (parsed, request, log) => handle(place, parsed, request, log),
    run: (job) => run(place, job),
    changeOf,
  };
}

/** The parts that the steps of a job work with. */
interface JobParts extends WorkParts {
  readonly stepOf: StepOf;
  giveUp(job: Job): void;
}

/** The answer if it is available at once; otherwise `ended` receives it. */
type Answer = reply.Reply | undefined;

/** A step of a job. Returns the answer unless the job continues asynchronously. */
type Next<T> = (place: JobParts, value: T, job: Job) => Answer;

/** Milliseconds between retries while another process has a change of the same name. */
const BUSY_STEP = 100;
const TAKEN = 'another process has handled it meanwhile';

function handle(place: JobParts, parsed: Parsed, request: OpenRequest, log: Log): Awaitable<reply.Reply> {
  const { on, stepOf } = place;
  if (!parsed.ok) return refused(on, parsed, request);
  const step = stepOf(parsed.message, parsed.known, log);
  if (on.around !== undefined && step !== untried) return around(on.around, parsed.message, request, step);
  const { call, answer } = step;
  return after(call(parsed.message as never, request), () => answer);
}

function refused(
  on: Handlers,
  { reason, detail }: Parsed & { ok: false },
  request: OpenRequest,
): Awaitable<reply.Reply> {
  if (on.invalid === undefined) return reply.refusal(400, reason, detail);
  return after(on.invalid({ reason, detail }, request), () => reply.quarantined);
}

async function around(
  wrap: NonNullable<Handlers['around']>,
  message: Message | UnknownMessage,
  request: OpenRequest,
  { call, answer }: HandlerStep,
): Promise<reply.Reply> {
  let hasReturned = false;
  const next = async () => {
    await call(message as never, request);
    hasReturned = true;
  };
  await wrap(message, request, () => {
    const handled = next();
    // If `around` does not wait for it, its failure must not end the process.
    handled.catch(() => {});
    return handled;
  });
  if (!hasReturned) throw new Error('around has not called next, or has not waited for it');
  return answer;
}

// From here to the handler, avoid closures and promises: one per message costs a busy receiver as much as the signature.

function run(place: JobParts, job: Job): Answer {
  const { opening } = job.request;
  try {
    return opening === undefined ? work(place, job) : begin(place, opening, job);
  } catch (error) {
    return unforeseen(place, error, job);
  }
}

/** Takes the next step with the outcome of a promise. */
function later<T>(place: JobParts, promise: Promise<T>, job: Job, done: Next<T>, failed: Next<unknown>): undefined {
  Promise.resolve(promise).then(
    (value) => goOn(place, job, done, value),
    (error) => goOn(place, job, failed, error),
  );
}

function goOn<T>(place: JobParts, job: Job, next: Next<T>, value: T): void {
  let answer: Answer;
  try {
    answer = next(place, value, job);
  } catch (error) {
    answer = unforeseen(place, error, job);
  }
  if (answer !== undefined) place.ended(job, answer);
}

function unforeseen({ report }: JobParts, error: unknown, { request, log }: Job): reply.Reply {
  report(error, { stage: 'host', request }, log);
  return reply.crashed;
}

function begin(place: JobParts, opening: Opening, job: Job): Answer {
  let state: Awaitable<Opened>;
  try {
    state = place.store.begin(opening);
  } catch (error) {
    return notBegun(place, error, job);
  }
  return isThenable(state) ? later(place, state, job, begun, notBegun) : begun(place, state, job);
}

function notBegun({ report }: JobParts, error: unknown, { request, log }: Job): reply.Reply {
  report(error, { stage: 'store', request }, log);
  return reply.storeFailed;
}

/** If another process has a change of the same name, it will soon be done, so only the deadline ends the wait. */
function begun(place: JobParts, state: Opened, job: Job): Answer {
  if (state === 'new') return work(place, job);
  if (state === 'done') return reply.duplicate;
  if (state === 'stale') return reply.stale;
  const { isExpired, opening } = job.request;
  if (state === 'running' || isExpired || opening === undefined) return reply.inProgress;
  place.clock.after(BUSY_STEP, () => goOn(place, job, begin, opening));
  return undefined;
}

function work(place: JobParts, job: Job): Answer {
  const { parsed, request, log } = job;
  let result: unknown;
  try {
    if (parsed.ok && place.on.around === undefined) {
      const { call, answer } = place.stepOf(parsed.message, parsed.known, log);
      job.answer = answer;
      result = call(parsed.message as never, request);
    } else result = handle(place, parsed, request, log);
  } catch (error) {
    return failed(place, error, job);
  }
  if (!isThenable(result)) return handled(place, result, job);
  place.leases.hold(job, place.giveUp);
  return later(place, result, job, handledLater, failedLater);
}

/** Without `job.answer`, the result is that of `handle`, the answer itself. */
function handled(place: JobParts, result: unknown, job: Job): Answer {
  const { abandonment } = job.request;
  if (abandonment !== undefined) return failed(place, abandonment, job);
  return settle(place, job.answer ?? (result as reply.Reply), job);
}

function handledLater(place: JobParts, result: unknown, job: Job): Answer {
  return place.leases.end(job) ? handled(place, result, job) : undefined;
}

function failedLater(place: JobParts, error: unknown, job: Job): Answer {
  return place.leases.end(job) ? failed(place, error, job) : undefined;
}

function failed(place: JobParts, error: unknown, job: Job): Answer {
  const { parsed, request, log } = job;
  const message = parsed.ok ? parsed.message : undefined;
  place.report(error, { stage: parsed.ok ? 'handler' : 'invalid', late: request.isExpired, message, request }, log);
  return settle(place, reply.failed, job);
}

/** Store failures after the handlers have finished do not change the answer. */
function settle(place: JobParts, answer: reply.Reply, job: Job): Answer {
  const { opening } = job.request;
  job.answer = answer;
  if (opening === undefined) return answer;
  let ours: Awaitable<boolean>;
  try {
    const { store } = place;
    ours = answer.status === 200 ? store.done(opening) : after(store.release(opening), () => true);
  } catch (error) {
    return notSettled(place, error, job);
  }
  return isThenable(ours) ? later(place, ours, job, settled, notSettled) : settled(place, ours, job);
}

function settled(place: JobParts, isOurs: boolean, job: Job): Answer {
  return isOurs ? job.answer : notSettled(place, new Error(TAKEN), job);
}

function notSettled({ report }: JobParts, error: unknown, { request, log, answer }: Job): Answer {
  report(error, { stage: 'store', request }, log);
  return answer;
}
