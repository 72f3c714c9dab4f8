import type { Awaitable } from './after.ts';
import { runBatch } from './batch.ts';
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
import { BatchItem, OpenRequest, type VerifiedFields } from './request.ts';
import type { Signatures } from './signatures.ts';
import { type Inbox, memoryStore } from './store.ts';
import { createVerifier, type Verifier } from './verifier.ts';
import { createWork } from './work.ts';

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

/** A message that is being handled, or waits for its turn. */
interface Running {
  readonly request: OpenRequest;
  /** Never rejects. */
  readonly work: Promise<reply.Reply>;
  /** Called back with the answer: promises for each step would cost as much as a signature. */
  readonly waiting: ((answer: reply.Reply) => void)[];
}

/** @throws TypeError when the secret is missing or empty. */
export function createCore(options: CoreOptions, signatures: Signatures): Core {
  const { on, name = '', deadline = 4500, drain = 10_000, clock = systemClock } = options;
  const { store = memoryStore({ now: clock.now }), stuckAfter = 15 * 60_000, concurrency = 16 } = options;
  const inTurn = createTurns();
  const running = new Map<string, Running>();
  const open = new Set<Running>();
  const reads = createDeadlines(clock);
  const waits = createDeadlines(clock);
  let closing = false;

  const report = createReport(on);
  const verifier = createVerifier(options, signatures, (error, _, log) => report(error, { stage: 'secret' }, log));
  const leases = createLeases({ store, clock, stuckAfter, report });

  const { handle, run } = createWork({ on, dispatch: createDispatch(on), store, leases, clock, report });

  /** Ids and sequences are the sender's to choose: none may get in another's way. */
  const scopeOf = (sender: string) => `${name}|${sender}`;

  const inbox =
    options.ack === 'stored'
      ? new InboxWorker({ store: store as Inbox, clock, drain, concurrency, report, leases, handle, scopeOf })
      : undefined;

  /** The answer to a message, or what will have it; however often it comes meanwhile, it is handled once. */
  function once(parsed: Parsed, verified: VerifiedFields, log: Log): reply.Reply | Running {
    const scope = scopeOf(verified.sender);
    const key = verified.key === undefined ? undefined : `${scope}|${verified.key}`;
    const same = key === undefined ? undefined : running.get(key);
    if (same !== undefined) return same;
    const computed = parsed.ok && parsed.known ? computedOf(parsed.message) : undefined;
    const change = changeOf(computed, scope);
    const request = new OpenRequest(verified);
    if (key !== undefined || change !== undefined) request.opening = { key, change, holder: leases.newHolder() };
    const task = { parsed, request, log };
    // Without turns a slow "entered" could end after the "exited" that followed it.
    const work = change === undefined ? run(task) : inTurn(change.name, async () => run(task));
    if (!(work instanceof Promise)) return work;
    const waiting: Running['waiting'] = [];
    const end = (answer: reply.Reply) => {
      open.delete(entry);
      if (key !== undefined) running.delete(key);
      for (const answered of waiting) answered(answer);
      return answer;
    };
    const entry: Running = {
      request,
      waiting,
      work: work.then(end, (error) => {
        report(error, { stage: 'host', request }, log);
        return end(reply.crashed);
      }),
    };
    open.add(entry);
    if (key !== undefined) running.set(key, entry);
    return entry;
  }

  function acceptOne(parsed: Parsed, verified: VerifiedFields, log: Log): Awaitable<reply.Reply> {
    if (inbox !== undefined) return inbox.accept([{ parsed, verified }], log).then(([only]) => only as reply.Reply);
    const entry = once(parsed, verified, log);
    if (!('work' in entry)) return entry;
    return new Promise((resolve) => {
      const ended = waits.add(verified.since + deadline, () => {
        entry.request.expire();
        resolve(reply.late);
      });
      entry.waiting.push((answer) => {
        ended();
        resolve(answer);
      });
    });
  }

  async function acceptBatch({ items, keys, sentAt }: Batch, verified: VerifiedFields, log: Log): Promise<reply.Reply> {
    const tooOld = verifier.age(sentAt);
    if (tooOld !== undefined) return tooOld;
    if (inbox !== undefined) {
      const arrivals = items.map((item, index) => ({
        parsed: parseValue(item),
        verified: new BatchItem(item, keys[index], verified),
      }));
      const kept = await inbox.accept(arrivals, log);
      return runBatch(kept.length, (index) => kept[index] as reply.Reply).finish();
    }
    const entries: Running[] = [];
    const batch = runBatch(items.length, (index) => {
      const item = new BatchItem(items[index], keys[index], verified);
      const entry = once(parseValue(item.item), item, log);
      if (!('work' in entry)) return entry;
      entries.push(entry);
      return entry.work;
    });
    return new Promise((resolve, reject) => {
      const ended = waits.add(verified.since + deadline, () => {
        batch.end();
        for (const { request } of entries) request.expire();
        resolve(batch.reply());
      });
      batch.finish().then((answer) => {
        ended();
        resolve(answer);
      }, reject);
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
