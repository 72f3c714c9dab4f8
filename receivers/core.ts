import type { Awaitable } from './after.ts';
import { BatchRun, batchReply } from './batch.ts';
import { systemClock, within } from './clock.ts';
import { createDeadlines, type Wait } from './deadlines.ts';
import { InboxWorker } from './inbox.ts';
import { createLeases } from './leases.ts';
import { Linked, LinkedList } from './linked.ts';
import { type Batch, computedOf, type Parsed, parseBody, parseValue } from './messages.ts';
import type { CoreOptions, Log } from './options.ts';
import * as reply from './reply.ts';
import { createReport, type Report } from './report.ts';
import { BatchItem, OpenRequest, type VerifiedFields } from './request.ts';
import type { Signatures } from './signatures.ts';
import { changeOf, type Inbox, memoryStore } from './store.ts';
import { createVerifier, type Verifier } from './verifier.ts';
import { createWork } from './work.ts';

/** The part of the kit that all edges share: verified bytes in, an answer out. */
export interface Core {
  verifier: Verifier;
  now(): number;
  isClosing(): boolean;
  /** Calls back when a body that began to arrive at `since` takes too long. */
  reading(since: number, cut: () => void): Wait;
  /** Never fails. */
  accept(verified: VerifiedFields, log: Log): Awaitable<reply.Reply>;
  report: Report;
  /** Takes up what was stored and not finished; for `ack: 'stored'`. */
  resume(log: Log): Promise<void>;
  /** Answers 503 from now on and waits for the handlers, late ones too. */
  close(): Promise<void>;
}

type Answered = (answer: reply.Reply) => void;

/** A message that is being handled, or waits for its turn. */
class Running extends Linked {
  #request: OpenRequest | undefined;
  #waiting: Answered[] | undefined;

  constructor(request: OpenRequest) {
    super();
    this.#request = request;
  }

  /** Nobody waits for the outcome any more. */
  expire(): void {
    this.#request?.expire();
  }

  /** Calls back with the answer: a promise for each step would cost as much as a signature. */
  wait(answered: Answered): void {
    if (this.#waiting === undefined) this.#waiting = [answered];
    else this.#waiting.push(answered);
  }

  /**
   * Lets go of everything: a `Map` of what comes and goes leaves tables behind that keep all that was ever in them alive
   * until the next full collection, and half of a busy receiver's garbage went there.
   */
  end(answer: reply.Reply): void {
    const waiting = this.#waiting ?? [];
    this.#waiting = undefined;
    this.#request = undefined;
    for (const answered of waiting) answered(answer);
  }
}

/** @throws TypeError when the secret is missing or empty. */
export function createCore(options: CoreOptions, signatures: Signatures): Core {
  const { on, name = '', deadline = 4500, drain = 10_000, clock = systemClock } = options;
  const { store = memoryStore({ now: clock.now }), stuckAfter = 15 * 60_000, concurrency = 16 } = options;
  const inTurn = createTurns();
  const running = new Map<string, Running>();
  const open = new LinkedList<Running>();
  const reads = createDeadlines(clock);
  const waits = createDeadlines(clock);
  let closing = false;

  const report = createReport(on);
  const verifier = createVerifier(options, signatures, (error, _, log) => report(error, { stage: 'secret' }, log));
  const leases = createLeases({ store, clock, stuckAfter, report });

  const { handle, run } = createWork({ on, store, leases, clock, report });

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
    const entry = new Running(request);
    const end = (answer: reply.Reply) => {
      open.delete(entry);
      if (key !== undefined) running.delete(key);
      entry.end(answer);
    };
    work.then(end, (error) => {
      report(error, { stage: 'host', request }, log);
      end(reply.crashed);
    });
    open.add(entry);
    if (key !== undefined) running.set(key, entry);
    return entry;
  }

  function acceptOne(parsed: Parsed, verified: VerifiedFields, log: Log): Awaitable<reply.Reply> {
    if (inbox !== undefined) return inbox.accept([{ parsed, verified }], log).then(([only]) => only as reply.Reply);
    const entry = once(parsed, verified, log);
    if (!(entry instanceof Running)) return entry;
    return new Promise((resolve) => {
      const wait = waits.add(verified.since + deadline, () => {
        entry.expire();
        resolve(reply.late);
      });
      entry.wait((answer) => {
        wait.end();
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
      return batchReply(await inbox.accept(arrivals, log));
    }
    const working = new Set<Running>();
    function handle(index: number, answered: Answered): reply.Reply | undefined {
      const item = new BatchItem(items[index], keys[index], verified);
      // What is done is let go of: collecting garbage would else cost as much as checking the messages.
      items[index] = undefined;
      const entry = once(parseValue(item.item), item, log);
      if (!(entry instanceof Running)) return entry;
      working.add(entry);
      entry.wait((answer) => {
        working.delete(entry);
        answered(answer);
      });
      return undefined;
    }
    return new Promise((resolve) => {
      const batch = new BatchRun({
        size: items.length,
        handle,
        finished(answer) {
          wait.end();
          resolve(answer);
        },
      });
      const wait = waits.add(verified.since + deadline, () => {
        resolve(batch.end());
        for (const entry of working) entry.expire();
      });
      batch.start();
    });
  }

  async function drained(): Promise<void> {
    const ended = [...open].map((entry) => new Promise<unknown>((resolve) => entry.wait(resolve)));
    await within(clock, drain, Promise.all(ended), () => []);
    for (const entry of open) entry.expire();
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

/** Has the tasks of one name done one after the other. */
type InTurn = <T>(name: string, task: () => Promise<T>) => Promise<T>;

function createTurns(): InTurn {
  const last = new Map<string, Promise<unknown>>();
  return (name, task) => {
    const before = last.get(name);
    const turn = before === undefined ? task() : before.then(task, task);
    last.set(name, turn);
    const forget = () => last.get(name) === turn && last.delete(name);
    turn.then(forget, forget);
    return turn;
  };
}
