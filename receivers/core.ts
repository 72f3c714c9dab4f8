import { type Awaitable, after, attempt } from './after.ts';
import { runBatch } from './batch.ts';
import { bytesOf } from './bytes.ts';
import { systemClock, within } from './clock.ts';
import { createDeadlines } from './deadlines.ts';
import { createDispatch } from './dispatch.ts';
import { InboxWorker } from './inbox.ts';
import { createLeases } from './leases.ts';
import { type Batch, type Parsed, parseBody, parseValue } from './messages.ts';
import type { CoreOptions, Log } from './options.ts';
import { changeOf, computedOf, createTurns } from './order.ts';
import * as reply from './reply.ts';
import { createReport, type Report } from './report.ts';
import { OpenRequest, type VerifiedFields } from './request.ts';
import type { Signatures } from './signatures.ts';
import { type Inbox, memoryStore, type Opened, type Opening } from './store.ts';
import { createVerifier, type Verifier } from './verifier.ts';

/** The part of the kit that all edges share: verified bytes in, an answer out. */
export interface Core {
  verifier: Verifier;
  now(): number;
  isClosing(): boolean;
  /** Calls back when a body that began to arrive at `since` takes too long; the returned function says that it is there. */
  reading(since: number, cut: () => void): () => void;
  /** Never fails. */
  accept(verified: VerifiedFields, log: Log): Awaitable<reply.Reply>;
  report: Report;
  /** Takes up what was stored and not finished; for `ack: 'stored'`. */
  resume(log: Log): Promise<void>;
  /** Answers 503 from now on and waits for the handlers, late ones too. */
  close(): Promise<void>;
}

/** A request that is being handled, or waits for its turn. */
interface Running {
  readonly request: OpenRequest;
  readonly work: Promise<reply.Reply>;
}

/** Milliseconds between two looks at a change of the same name that another process has. */
const BUSY_STEP = 100;

/** @throws TypeError when the secret is missing or empty. */
export function createCore(options: CoreOptions, signatures: Signatures): Core {
  const { on, name = '', deadline = 4500, drain = 10_000, clock = systemClock } = options;
  const { store = memoryStore({ now: clock.now }), stuckAfter = 15 * 60_000, concurrency = 16 } = options;
  const dispatch = createDispatch(on);
  const inTurn = createTurns();
  const running = new Map<string, Running>();
  const open = new Set<Running>();
  const reads = createDeadlines(clock);
  const waits = createDeadlines(clock);
  let closing = false;

  const report = createReport(on);
  const verifier = createVerifier(options, signatures, (error, _, log) => report(error, { stage: 'secret' }, log));
  const leases = createLeases({ store, clock, stuckAfter, report });

  /** Runs the handlers; fails as they fail. */
  function handle(parsed: Parsed, request: OpenRequest): Awaitable<reply.Reply> {
    if (parsed.ok) return dispatch(parsed.message, parsed.known, request);
    const { reason, detail } = parsed;
    if (on.invalid === undefined) return reply.refusal(400, reason, detail);
    return after(on.invalid({ reason, detail }, request), () => reply.quarantined);
  }

  /** Failures of the store that come after the handlers' verdict do not change the answer. */
  function settle(
    answer: reply.Reply,
    opening: Opening | undefined,
    request: OpenRequest,
    log: Log,
  ): Awaitable<reply.Reply> {
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

  function work(parsed: Parsed, opening: Opening | undefined, request: OpenRequest, log: Log): Awaitable<reply.Reply> {
    return attempt(
      () => {
        const handled = handle(parsed, request);
        return handled instanceof Promise ? leases.keep(opening, request, handled, log) : handled;
      },
      (answer) => settle(answer, opening, request, log),
      (error) => {
        const message = parsed.ok ? parsed.message : undefined;
        report(error, { stage: parsed.ok ? 'handler' : 'invalid', late: request.isExpired, message, request }, log);
        return settle(reply.failed, opening, request, log);
      },
    );
  }

  /** Begins the request in the store, and handles it if it is ours. */
  function begin(parsed: Parsed, opening: Opening, request: OpenRequest, log: Log): Awaitable<reply.Reply> {
    return attempt(
      () => store.begin(opening),
      (state) => {
        if (state !== 'new') return otherwise(state, () => begin(parsed, opening, request, log), request);
        return work(parsed, opening, request, log);
      },
      (error) => {
        report(error, { stage: 'store', request }, log);
        return reply.storeFailed;
      },
    );
  }

  /** A change of the same user that another process has will soon be done: only the deadline ends the wait. */
  function otherwise(
    state: Exclude<Opened, 'new'>,
    again: () => Awaitable<reply.Reply>,
    request: OpenRequest,
  ): Awaitable<reply.Reply> {
    if (state === 'done') return reply.duplicate;
    if (state === 'stale') return reply.stale;
    if (state === 'running' || request.isExpired) return reply.inProgress;
    return new Promise<void>((resolve) => clock.after(BUSY_STEP, resolve)).then(again);
  }

  /** Ids and sequences are the sender's to choose: none may get in another's way. */
  const scopeOf = (sender: string) => `${name}|${sender}`;

  const inbox =
    options.ack === 'stored'
      ? new InboxWorker({ store: store as Inbox, clock, drain, concurrency, report, leases, handle, scopeOf })
      : undefined;

  function run(
    parsed: Parsed,
    key: string | undefined,
    verified: VerifiedFields,
    request: OpenRequest,
    log: Log,
  ): Awaitable<reply.Reply> {
    const computed = parsed.ok && parsed.known ? computedOf(parsed.message) : undefined;
    const change = changeOf(computed, scopeOf(verified.sender));
    if (key === undefined && change === undefined) return work(parsed, undefined, request, log);
    const opening = { key, change, holder: leases.newHolder() };
    request.opening = opening;
    if (change === undefined) return begin(parsed, opening, request, log);
    // Without turns a slow "entered" could end after the "exited" that followed it.
    return inTurn(change.name, async () => begin(parsed, opening, request, log));
  }

  /** The answer of the work, or "come again" when the sender is about to hang up. */
  function inTime(work: Promise<reply.Reply>, since: number, late: () => reply.Reply): Promise<reply.Reply> {
    return new Promise((resolve, reject) => {
      const ended = waits.add(since + deadline, () => resolve(late()));
      work.then((answer) => {
        ended();
        resolve(answer);
      }, reject);
    });
  }

  /** Handles a message once, however often it comes meanwhile. */
  function once(parsed: Parsed, verified: VerifiedFields, log: Log): reply.Reply | Running {
    const key = verified.key === undefined ? undefined : `${scopeOf(verified.sender)}|${verified.key}`;
    const same = key === undefined ? undefined : running.get(key);
    if (same !== undefined) return same;
    const request = new OpenRequest(verified);
    const work = run(parsed, key, verified, request, log);
    if (!(work instanceof Promise)) return work;
    const entry: Running = { request, work };
    open.add(entry);
    if (key !== undefined) running.set(key, entry);
    const end = () => {
      open.delete(entry);
      if (key !== undefined) running.delete(key);
    };
    work.then(end, end);
    return entry;
  }

  function acceptOne(parsed: Parsed, verified: VerifiedFields, log: Log): Awaitable<reply.Reply> {
    if (inbox !== undefined) return inbox.accept([{ parsed, verified }], log).then(([only]) => only as reply.Reply);
    const entry = once(parsed, verified, log);
    if (!('work' in entry)) return entry;
    return inTime(entry.work, verified.since, () => {
      entry.request.expire();
      return reply.late;
    });
  }

  async function acceptBatch({ items, keys, sentAt }: Batch, verified: VerifiedFields, log: Log): Promise<reply.Reply> {
    const tooOld = verifier.age(sentAt);
    if (tooOld !== undefined) return tooOld;
    const each = items.map((item, index) => ({
      parsed: parseValue(item),
      verified: {
        ...verified,
        key: keys[index],
        get rawBody() {
          return bytesOf(JSON.stringify(item));
        },
      },
    }));
    if (inbox !== undefined) {
      const kept = await inbox.accept(each, log);
      return runBatch(kept.length, (index) => kept[index] as reply.Reply).finish();
    }
    const entries: Running[] = [];
    const batch = runBatch(each.length, (index) => {
      const { parsed, verified } = each[index] as (typeof each)[number];
      const entry = once(parsed, verified, log);
      if (!('work' in entry)) return entry;
      entries.push(entry);
      return entry.work;
    });
    return inTime(batch.finish(), verified.since, () => {
      batch.end();
      for (const { request } of entries) request.expire();
      return batch.reply();
    });
  }

  async function drained(): Promise<void> {
    const ended = Promise.all([...open].map((entry) => entry.work));
    await within(clock, drain, ended, () => []);
    for (const entry of open) entry.request.expire();
  }

  return {
    verifier,
    report,
    now: clock.now,
    isClosing: () => closing,
    reading: (since, cut) => reads.add(since + deadline, cut),
    accept(verified, log) {
      if (closing) return reply.closing;
      const parsed = parseBody(verified.rawBody);
      return 'batch' in parsed ? acceptBatch(parsed.batch, verified, log) : acceptOne(parsed, verified, log);
    },
    async resume(log) {
      await inbox?.resume(log);
    },
    async close() {
      closing = true;
      reads.close();
      await Promise.all([drained(), inbox?.close()]);
      waits.close();
      leases.close();
    },
  };
}
