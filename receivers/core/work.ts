import type { Handlers } from '../options.ts';
import type { Message, UnknownMessage } from '../parse/messages.ts';
import type { Opened } from '../store.ts';
import { type Awaitable, after, isThenable } from './after.ts';
import type { Job } from './job.ts';
import { HandlerLeases } from './leases.ts';
import type { CoreParts } from './parts.ts';
import * as reply from './reply.ts';
import type { OpenRequest } from './request.ts';
import { createSteps, type HandlerStep, type Steps, untried } from './steps.ts';

/** The parts that the steps of a job work with. */
export interface Work extends CoreParts, Steps {
  readonly leases: HandlerLeases;
  /** Receives the answer of an asynchronous job. */
  ended(job: Job, answer: reply.Reply): void;
  giveUp(job: Job): void;
}

export function createWork(parts: CoreParts, ended: Work['ended']): Work {
  const leases = new HandlerLeases(parts);
  const giveUp = (job: Job) => goOn(work, job, settle, reply.failed);
  const work: Work = { ...parts, ...createSteps(parts.on, parts.test), leases, ended, giveUp };
  return work;
}

/** The answer if it is available at once; otherwise `ended` receives it. */
type Answer = reply.Reply | undefined;

/** Continues a job. Returns the answer unless the job continues asynchronously. */
type Next<T> = (work: Work, value: T, job: Job) => Answer;

/** Milliseconds between retries while another process has a change of the same name. */
const BUSY_STEP = 100;
const TAKEN = 'another process has handled it meanwhile';

/** Runs the handlers of a job, whose answer is then `job.answer`. Fails if they fail. */
export function handle({ on, stepOf }: Work, job: Job): unknown {
  const { parsed, request, log } = job;
  if (!parsed.ok) {
    const { reason, detail } = parsed;
    job.answer = on.invalid === undefined ? reply.refusal(400, reason, detail) : reply.quarantined;
    return on.invalid?.({ reason, detail }, request);
  }
  const step = stepOf(parsed.message, parsed.known, log);
  job.answer = step.answer;
  if (on.around !== undefined && step !== untried) return around(on.around, parsed.message, request, step);
  return step.call(parsed.message as never, request);
}

async function around(
  wrap: NonNullable<Handlers['around']>,
  message: Message | UnknownMessage,
  request: OpenRequest,
  { call }: HandlerStep,
): Promise<void> {
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
}

// From here to the handler, avoid closures and promises: one per message costs a busy receiver as much as the signature.

/** Begins a job in the store, handles it if it is ours, and ends it there. Never fails. */
export function run(work: Work, job: Job): Answer {
  return contained(work, job, begin, undefined);
}

function contained<T>(work: Work, job: Job, next: Next<T>, value: T): Answer {
  try {
    return next(work, value, job);
  } catch (error) {
    work.report(error, { stage: 'host', request: job.request }, job.log);
    return reply.crashed;
  }
}

function goOn<T>(work: Work, job: Job, next: Next<T>, value: T): void {
  const answer = contained(work, job, next, value);
  if (answer !== undefined) work.ended(job, answer);
}

/** Starts something and takes the next step with its outcome, synchronously if that is available. */
function start<T>(
  work: Work,
  job: Job,
  act: (work: Work, job: Job) => Awaitable<T>,
  done: Next<T>,
  failed: Next<unknown>,
): Answer {
  let outcome: Awaitable<T>;
  try {
    outcome = act(work, job);
  } catch (error) {
    return failed(work, error, job);
  }
  if (!isThenable(outcome)) return done(work, outcome, job);
  Promise.resolve(outcome).then(
    (value) => goOn(work, job, done, value),
    (error) => goOn(work, job, failed, error),
  );
  return undefined;
}

function begin(work: Work, _: unknown, job: Job): Answer {
  return start(work, job, open, opened, storeFailed);
}

function open({ store }: Work, { request: { opening } }: Job): Awaitable<Opened> {
  return opening === undefined ? 'new' : store.begin(opening);
}

/** If another process has a change of the same name, it will soon be done, so only the deadline ends the wait. */
function opened(work: Work, state: Opened, job: Job): Answer {
  if (state === 'new') return start(work, job, call, handled, failed);
  if (state === 'done') return reply.duplicate;
  if (state === 'stale') return reply.stale;
  if (state === 'running' || job.request.isExpired) return reply.inProgress;
  work.clock.after(BUSY_STEP, () => goOn(work, job, begin, undefined));
  return undefined;
}

function call(work: Work, job: Job): unknown {
  const result = handle(work, job);
  if (isThenable(result)) work.leases.hold(job, work.giveUp);
  return result;
}

function handled(work: Work, _: unknown, job: Job): Answer {
  const { abandonment } = job.request;
  if (abandonment !== undefined) return failed(work, abandonment, job);
  return work.leases.end(job) ? settle(work, job.answer as reply.Reply, job) : undefined;
}

function failed(work: Work, error: unknown, job: Job): Answer {
  if (!work.leases.end(job)) return undefined;
  const { parsed, request, log } = job;
  const message = parsed.ok ? parsed.message : undefined;
  work.report(error, { stage: parsed.ok ? 'handler' : 'invalid', late: request.isExpired, message, request }, log);
  return settle(work, reply.failed, job);
}

function settle(work: Work, answer: reply.Reply, job: Job): Answer {
  job.answer = answer;
  return start(work, job, close, closed, storeFailed);
}

function close({ store }: Work, { request: { opening }, answer }: Job): Awaitable<boolean> {
  if (opening === undefined) return true;
  return answer?.status === 200 ? store.done(opening) : after(store.release(opening), () => true);
}

function closed(work: Work, isOurs: boolean, job: Job): Answer {
  return isOurs ? job.answer : storeFailed(work, new Error(TAKEN), job);
}

/** Failures after the handlers have finished do not change the answer. */
function storeFailed({ report }: Work, error: unknown, { request, log, answer }: Job): Answer {
  report(error, { stage: 'store', request }, log);
  return answer ?? reply.storeFailed;
}
