import { type Awaitable, after, isThenable } from './after.ts';
import type { IdentifyBody } from './bodies.ts';
import type { Leases } from './leases.ts';
import { type Computed, computedOf, type Message, type Parsed, type UnknownMessage } from './messages.ts';
import type { ComputedBody, Handler, Handlers, Log, ReceivedRequest, ReceiverClock } from './options.ts';
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
const TAKEN = 'another process has handled it meanwhile';

export function createWork({ on, store, leases, clock, report }: WorkParts): Work {
  const dispatch = createDispatch(on);

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

  // No closures from here to the handler: they are once per request, and cost a busy receiver as much as its signature.

  function begin(task: Task, opening: Opening): Awaitable<reply.Reply> {
    let state: Awaitable<Opened>;
    try {
      state = store.begin(opening);
    } catch (error) {
      return notBegun(error, task);
    }
    if (!isThenable(state)) return begun(state, task, opening);
    return state.then(
      (opened) => begun(opened, task, opening),
      (error) => notBegun(error, task),
    );
  }

  function notBegun(error: unknown, { request, log }: Task): reply.Reply {
    report(error, { stage: 'store', request }, log);
    return reply.storeFailed;
  }

  /** A change of the same user that another process has will soon be done: only the deadline ends the wait. */
  function begun(state: Opened, task: Task, opening: Opening): Awaitable<reply.Reply> {
    if (state === 'new') return work(task, opening);
    if (state === 'done') return reply.duplicate;
    if (state === 'stale') return reply.stale;
    if (state === 'running' || task.request.isExpired) return reply.inProgress;
    return new Promise<void>((resolve) => clock.after(BUSY_STEP, resolve)).then(() => begin(task, opening));
  }

  function work(task: Task, opening: Opening | undefined): Awaitable<reply.Reply> {
    let handled: Awaitable<reply.Reply>;
    try {
      handled = handle(task.parsed, task.request);
    } catch (error) {
      return failed(error, task, opening);
    }
    return isThenable(handled) ? held(handled, task, opening) : settle(handled, task, opening);
  }

  /** The outcome of a handler that goes on, whose request is held meanwhile. */
  function held(handled: Promise<reply.Reply>, task: Task, opening: Opening | undefined): Promise<reply.Reply> {
    return new Promise((resolve) => {
      const lease = leases.hold(task.request, () => resolve(settle(reply.failed, task, opening)), task.log);
      handled.then(
        (answer) => leases.end(lease) && resolve(settle(answer, task, opening)),
        (error) => leases.end(lease) && resolve(failed(error, task, opening)),
      );
    });
  }

  function failed(error: unknown, task: Task, opening: Opening | undefined): Awaitable<reply.Reply> {
    const { parsed, request, log } = task;
    const message = parsed.ok ? parsed.message : undefined;
    report(error, { stage: parsed.ok ? 'handler' : 'invalid', late: request.isExpired, message, request }, log);
    return settle(reply.failed, task, opening);
  }

  /** Failures of the store that come after the handlers' verdict do not change the answer. */
  function settle(answer: reply.Reply, task: Task, opening: Opening | undefined): Awaitable<reply.Reply> {
    if (opening === undefined) return answer;
    let ours: Awaitable<boolean>;
    try {
      ours = answer.status === 200 ? store.done(opening) : after(store.release(opening), () => true);
    } catch (error) {
      return notSettled(error, task, answer);
    }
    if (!isThenable(ours)) return ours ? answer : notSettled(new Error(TAKEN), task, answer);
    return ours.then(
      (isOurs) => (isOurs ? answer : notSettled(new Error(TAKEN), task, answer)),
      (error) => notSettled(error, task, answer),
    );
  }

  function notSettled(error: unknown, { request, log }: Task, answer: reply.Reply): reply.Reply {
    report(error, { stage: 'store', request }, log);
    return answer;
  }

  return {
    handle,
    run(task) {
      const { opening } = task.request;
      return opening === undefined ? work(task, undefined) : begin(task, opening);
    },
  };
}

type Dispatch = (message: Message | UnknownMessage, known: boolean, request: ReceivedRequest) => Awaitable<reply.Reply>;

type ComputedHandler = Handler<ComputedBody>;

/** Makes the function that gives a message to the handlers that want it. */
function createDispatch(on: Handlers): Dispatch {
  // Keys come from outside: no look-up in an object.
  const audiences = new Map(Object.entries(on.audience ?? {}));
  const traits = new Map(Object.entries(on.trait ?? {}));

  /** The handler of this audience or trait, or of all (`*`); undefined where they are left to `identify`. */
  function computedHandler({ kind, key }: Computed, { traits: values }: IdentifyBody): ComputedHandler | undefined {
    if (kind === 'audience') {
      const handlers = audiences.get(key) ?? audiences.get('*');
      const member = Object.hasOwn(values, key) ? values[key] : undefined;
      if (handlers === undefined || typeof member !== 'boolean') return undefined;
      return (member ? handlers.entered : handlers.exited) ?? ignored;
    }
    const handlers = traits.get(key) ?? traits.get('*');
    if (handlers === undefined) return undefined;
    const isGone = Object.values(values).every((value) => value === null);
    return (isGone ? handlers.gone : handlers.changed) ?? ignored;
  }

  function leave(message: Message | UnknownMessage, request: ReceivedRequest): Awaitable<reply.Reply> {
    return after(on.unhandled?.(message, request), isLeft);
  }

  function specific(message: Message, request: ReceivedRequest): Awaitable<reply.Reply> {
    const computed = message.type === 'identify' ? computedOf(message) : undefined;
    const special = computed && computedHandler(computed, message as IdentifyBody);
    const handler = (special ?? on[message.type]) as Handler<Message> | undefined;
    if (handler === undefined && on.any === undefined) return leave(message, request);
    return after(handler?.(message, request), isHandled);
  }

  return (message, known, request) => {
    if (!known) return leave(message, request);
    if (on.any === undefined) return specific(message as Message, request);
    return after(on.any(message as Message, request), () => specific(message as Message, request));
  };
}

const isHandled = () => reply.handled;
const isLeft = () => reply.unhandled;

/** For changes that an audience's handlers leave out. */
const ignored: ComputedHandler = () => {};
