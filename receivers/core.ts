import { after, attempt } from './after.ts';
import { systemClock, within } from './clock.ts';
import { createDeadlines } from './deadlines.ts';
import { type DeliveryFields, OpenDelivery } from './delivery.ts';
import { createDispatch } from './dispatch.ts';
import { createInboxWorker, type InboxWorker } from './inbox.ts';
import { type Parsed, parseMessage } from './messages.ts';
import type { Awaitable, CoreOptions, Failure, Log } from './options.ts';
import * as reply from './reply.ts';
import { type Inbox, memoryStore } from './store.ts';
import { createVerifier, type Verifier } from './verifier.ts';

/** A verified request on its way to the handlers. */
export interface Accepted extends DeliveryFields {
  /** When the request came in, by the receiver's clock. */
  since: number;
}

/** The part of the kit that all edges share: verified bytes in, an answer out. */
export interface Core {
  verifier: Verifier;
  now(): number;
  isClosing(): boolean;
  /** Calls back when a body that began to arrive at `since` takes too long; the returned function says that it is there. */
  reading(since: number, cut: () => void): () => void;
  /** Never fails. */
  accept(request: Accepted, log: Log): Awaitable<reply.Reply>;
  /** Tells `on.error`, without letting it do harm. */
  report(error: unknown, failure: Partial<Failure> & Pick<Failure, 'stage'>, log: Log): void;
  /** Takes up what was stored and not finished; for `ack: 'stored'`. */
  resume(log: Log): Promise<void>;
  /** Answers 503 from now on and waits for the handlers, late ones too. */
  close(): Promise<void>;
}

interface Running {
  delivery: OpenDelivery;
  work: Promise<reply.Reply>;
}

/** A log of the host that fails must not fail the answer. */
function logSafely(log: Log, fields: Record<string, unknown>, message = 'webhook failed'): void {
  try {
    log.error(fields, message);
  } catch {
    // There is nowhere left to say it.
  }
}

/** @throws TypeError when the secret is missing or empty. */
export function createCore(options: CoreOptions): Core {
  const { on, deadline = 4500, drain = 10_000, clock = systemClock, store = memoryStore() } = options;
  const dispatch = createDispatch(on, store);
  const running = new Map<string, Running>();
  const open = new Set<Running>();
  const reads = createDeadlines(clock);
  const waits = createDeadlines(clock);
  let closing = false;

  async function tell(error: unknown, failure: Failure, log: Log): Promise<void> {
    try {
      await on.error?.(error, failure);
    } catch (err) {
      logSafely(log, { err, stage: 'error' }, 'the error handler of the webhook receiver failed');
    }
  }

  const report: Core['report'] = (error, failure, log) => {
    logSafely(log, { err: error, stage: failure.stage, late: failure.late ?? false });
    void tell(error, { late: false, gaveUp: false, ...failure }, log);
  };

  const verifier = createVerifier(options, (error, _, log) => report(error, { stage: 'secret' }, log));

  /** Failures of the store that come after the handlers' verdict do not change the answer. */
  function settle(answer: reply.Reply, delivery: OpenDelivery, log: Log): Awaitable<reply.Reply> {
    const { key } = delivery;
    if (key === undefined) return answer;
    return attempt(
      () => (answer.status === 200 ? store.done(key) : store.release(key)),
      () => answer,
      (error) => {
        report(error, { stage: 'store', delivery }, log);
        return answer;
      },
    );
  }

  /** Runs the handlers; fails as they fail. */
  function handle(parsed: Parsed, delivery: OpenDelivery): Awaitable<reply.Reply> {
    if (parsed.ok) return dispatch(parsed.message, parsed.known, delivery);
    const { reason, detail } = parsed;
    if (on.invalid === undefined) return reply.refusal(400, reason, detail);
    return after(on.invalid({ reason, detail }, delivery), () => reply.quarantined);
  }

  function work(delivery: OpenDelivery, log: Log): Awaitable<reply.Reply> {
    const parsed = parseMessage(delivery.rawBody);
    return attempt(
      () => handle(parsed, delivery),
      (answer) => settle(answer, delivery, log),
      (error) => {
        const message = parsed.ok ? parsed.message : undefined;
        report(error, { stage: parsed.ok ? 'handler' : 'invalid', late: delivery.expired, message, delivery }, log);
        return settle(reply.failed, delivery, log);
      },
    );
  }

  function begin(delivery: OpenDelivery, log: Log): Awaitable<reply.Reply> {
    const { key } = delivery;
    if (key === undefined) return work(delivery, log);
    return attempt(
      () => store.begin(key),
      (state) => {
        if (state === 'new') return work(delivery, log);
        return state === 'done' ? reply.duplicate : reply.inProgress;
      },
      (error) => {
        report(error, { stage: 'store', delivery }, log);
        return reply.storeFailed;
      },
    );
  }

  const inbox: InboxWorker | undefined =
    options.ack === 'stored' ? createInboxWorker({ store: store as Inbox, clock, report, handle, drain }) : undefined;

  /** The answer of the work, or "come again" when the sender is about to hang up. */
  function inTime({ work, delivery }: Running, since: number): Promise<reply.Reply> {
    return new Promise((resolve, reject) => {
      const inTime = waits.add(since + deadline, () => {
        delivery.expire();
        resolve(reply.late);
      });
      work.then((answer) => {
        inTime();
        resolve(answer);
      }, reject);
    });
  }

  function start(request: Accepted, log: Log): Awaitable<reply.Reply> {
    const delivery = new OpenDelivery(request);
    const work = begin(delivery, log);
    if (!(work instanceof Promise)) return work;
    const entry: Running = { delivery, work };
    const { key } = request;
    open.add(entry);
    if (key !== undefined) running.set(key, entry);
    void work.then(() => {
      open.delete(entry);
      if (key !== undefined) running.delete(key);
    });
    return inTime(entry, request.since);
  }

  async function drained(): Promise<void> {
    const work = Promise.all([...open].map((entry) => entry.work));
    await within(clock, drain, work, () => []);
    for (const entry of open) entry.delivery.expire();
  }

  return {
    verifier,
    report,
    now: clock.now,
    isClosing: () => closing,
    reading: (since, cut) => reads.add(since + deadline, cut),
    accept(request, log) {
      if (closing) return reply.closing;
      if (inbox !== undefined) return inbox.accept(request, log);
      const same = request.key === undefined ? undefined : running.get(request.key);
      return same === undefined ? start(request, log) : inTime(same, request.since);
    },
    async resume(log) {
      await inbox?.resume(log);
    },
    async close() {
      closing = true;
      reads.close();
      await Promise.all([drained(), inbox?.close()]);
      waits.close();
    },
  };
}
