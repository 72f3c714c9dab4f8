import { systemClock, within } from '../clock.ts';
import type { CoreOptions, Handlers, Log, ReceiverClock } from '../options.ts';
import type { Batch } from '../parse/envelope.ts';
import type { Parsed } from '../parse/messages.ts';
import { checkNumber } from '../parse/numbers.ts';
import { isObject } from '../parse/objects.ts';
import { type ParsedBody, parseBody } from '../parse/parse.ts';
import { deletedBy, type Inbox, memoryStore, type ReceiverStore } from '../store.ts';
import type { Signatures } from '../verify/signatures.ts';
import { Verifier } from '../verify/verifier.ts';
import { BatchRun, batchReply } from './batch.ts';
import { createDeadlines, type Wait } from './deadlines.ts';
import { checkHandlers } from './handler-names.ts';
import { InboxWorker } from './inbox.ts';
import { Job, WaitingRequest } from './job.ts';
import { HandlerLeases, type HeldRequest } from './leases.ts';
import { LinkedList } from './linked.ts';
import { checkOptionNames } from './option-names.ts';
import { otherKeysOf, withOtherKeys } from './other-keys.ts';
import { PassingMap } from './passing.ts';
import * as reply from './reply.ts';
import { createReport, type ReportFailure } from './report.ts';
import { BatchItem, OpenRequest, type VerifiedFields } from './request.ts';
import { createWork, type Work } from './work.ts';

/** The part of the kit that all edges share. It takes verified bytes and answers them. */
export interface Core {
  verifier: Verifier;
  now(): number;
  isClosing(): boolean;
  /** Calls back when a body that began to arrive at `since` takes too long. */
  reading(since: number, cut: () => void): Wait;
  /** Calls back with the answer, synchronously if it is available. Never fails. */
  accept(verified: VerifiedFields, log: Log, answered: Answered): void;
  report: ReportFailure;
  /** Resolves once the handlers running now are done, after `drain` at the latest. */
  settled(): Promise<void>;
  /** Call at start. Resumes stored messages that are not finished, and logs doubtful options. */
  resume(log: Log): Promise<void>;
  /** Answers 503 from now on and waits for the handlers, including late ones. */
  close(): Promise<void>;
}

/** Milliseconds until the sender gives up on an answer. */
const SENDER_WAIT = 5_000;

export type Answered = (answer: reply.Reply) => void;

/**
 * @param hasOwnTimers - true if a timer ends with the request that set it, as on some edge runtimes
 * @throws TypeError when the secret is missing or empty, or an option is invalid
 */
export function createCore(options: CoreOptions, signatures: Signatures, hasOwnTimers = false): Core {
  checkOptions(options);
  const { on, name = '', deadline = 4500, drain = 10_000, clock = systemClock } = options;
  const { store = memoryStore({ now: clock.now }), stuckAfter = 15 * 60_000, concurrency = 16 } = options;
  const reads = createDeadlines(clock, !hasOwnTimers);
  const waits = createDeadlines(clock, !hasOwnTimers);
  let closing = false;

  /** Senders choose ids and sequences, so each sender needs its own scope. */
  const scopeOf = (sender: string) => `${name}|${sender}`;
  /** Unless secrets belong to tenants, requests signed with a former secret are about the same users. */
  const deletedScopeOf = (scope: string) => (typeof options.secret === 'function' ? scope : scopeOf(''));

  const report = createReport(on);
  const verifier = new Verifier(options, signatures, (error, _, log) => report(error, { stage: 'secret' }, log));
  const isOneKeyed = (options.signing ?? 'x-signature') === 'x-signature';
  const remembers = isOneKeyed ? store : withOtherKeys(store);
  const jobs = new Jobs({
    on,
    takesTests: options.test ?? false,
    store: remembers,
    clock,
    stuckAfter,
    report,
    scopeOf,
    deletedScopeOf,
  });
  const { leases, handle, changeOf } = jobs;
  const inbox =
    options.ack === 'stored'
      ? new InboxWorker({
          name,
          store: store as Inbox,
          clock,
          drain,
          concurrency,
          report,
          leases,
          handle,
          changeOf,
          scopeOf,
          deletedScopeOf,
        })
      : undefined;

  function acceptOne(parsed: Parsed, verified: VerifiedFields, log: Log, answered: Answered): void {
    const given = jobs.once(parsed, verified, scopeOf(verified.sender), log);
    if (!(given instanceof Job)) return void answered(given);
    const waiting = new WaitingRequest(verified.since + deadline, given, waits, answered);
    given.ask(waiting, 0);
    waits.watch(waiting);
  }

  function acceptBatch(
    batch: Batch,
    verified: VerifiedFields,
    log: Log,
    { answered, failed }: { answered: Answered; failed(error: unknown): void },
  ): void {
    const tooOld = verifier.age(batch.sentAt, verified, log);
    if (tooOld !== undefined) return void answered(tooOld);
    const scope = scopeOf(verified.sender);
    const run = new BatchRun({
      size: batch.keys.length,
      deadline: verified.since + deadline,
      now: clock.now,
      handle: (index) => jobs.once(batch.message(index), new BatchItem(verified, batch, index), scope, log),
      finished(answer, each) {
        waits.unwatch(each);
        answered(answer);
      },
      failed(error, each) {
        waits.unwatch(each);
        failed(error);
      },
    });
    waits.watch(run);
    run.start();
  }

  /** Stores the messages, then answers. */
  async function keep(inbox: InboxWorker, body: ParsedBody, verified: VerifiedFields, log: Log): Promise<reply.Reply> {
    if (!('batch' in body)) {
      const [only] = await inbox.accept([{ parsed: body, verified }], log);
      return only as reply.Reply;
    }
    const { batch } = body;
    const tooOld = verifier.age(batch.sentAt, verified, log);
    if (tooOld !== undefined) return tooOld;
    const arrivals = batch.keys.map((_, index) => ({
      parsed: batch.message(index),
      verified: new BatchItem(verified, batch, index),
    }));
    return batchReply(await inbox.accept(arrivals, log));
  }

  return {
    verifier,
    report,
    now: clock.now,
    isClosing: () => closing,
    reading: (since, cut) => reads.add(since + deadline, cut),
    accept(verified, log, answered) {
      if (closing) return void answered(reply.closing);
      leases.catchUp(verified.since);
      const failed = (error: unknown) => {
        report(error, { stage: 'host' }, log);
        answered(reply.crashed);
      };
      try {
        const body = parseBody(verified.rawBody);
        if (inbox !== undefined) keep(inbox, body, verified, log).then(answered, failed);
        else if ('batch' in body) acceptBatch(body.batch, verified, log, { answered, failed });
        else acceptOne(body, verified, log, answered);
      } catch (error) {
        failed(error);
      }
    },
    settled: () => jobs.settled(drain),
    async resume(log) {
      if (verifier.isUnset) log.warn({}, 'the shared secret is not set: webhooks will be answered 503');
      if (deadline >= SENDER_WAIT) log.warn({ deadline }, `the sender waits only ${SENDER_WAIT} ms for an answer`);
      await inbox?.resume(log);
    },
    async close() {
      closing = true;
      reads.close();
      await Promise.all([jobs.drained(drain), inbox?.close()]);
      waits.close();
      leases.close();
    },
  };
}

/** TypeScript catches these mistakes; JavaScript would answer 503 for ever, or never handle stored messages. */
function checkOptions(options: CoreOptions): void {
  if (!isObject(options)) throw new TypeError('give the options of the receiver: { secret, on }');
  checkHandlers(options.on);
  checkOptionNames(options);
  for (const name of ['stuckAfter', 'concurrency'] as const) checkNumber(name, options[name]);
  checkNumber('drain', options.drain, true);
  const { ack = 'handled', store } = options;
  if (ack !== 'handled' && ack !== 'stored') throw new TypeError("ack is 'handled' or 'stored'");
  if (store !== undefined && typeof store?.begin !== 'function') {
    throw new TypeError('store is one that memoryStore, sqliteStore or postgresStore has made');
  }
  if (ack === 'stored' && !(store && 'keep' in store)) {
    throw new TypeError("ack: 'stored' needs a store that keeps requests, as sqliteStore does");
  }
}

interface JobsParts {
  readonly on: Handlers;
  readonly takesTests: boolean;
  readonly store: ReceiverStore;
  readonly clock: ReceiverClock;
  readonly stuckAfter: number;
  readonly report: ReportFailure;
  scopeOf(sender: string): string;
  /** The scope that a deletion notice of this scope deletes in. */
  deletedScopeOf(scope: string): string;
}

/** Messages in progress. Repetitions of a message share one job; changes of one name run in turn. */
class Jobs {
  readonly leases: HandlerLeases;
  readonly handle: Work['handle'];
  readonly changeOf: Work['changeOf'];
  readonly #run: Work['run'];
  readonly #clock: ReceiverClock;
  readonly #scopeOf: JobsParts['scopeOf'];
  readonly #deletedScopeOf: JobsParts['deletedScopeOf'];
  readonly #open = new LinkedList<HeldRequest>();
  readonly #running = new PassingMap<string, Job>();
  /** The newest change of each name that is running or waiting for its turn. */
  readonly #newest = new PassingMap<string, Job>();

  constructor({ on, takesTests, store, clock, stuckAfter, report, scopeOf, deletedScopeOf }: JobsParts) {
    this.#clock = clock;
    this.#scopeOf = scopeOf;
    this.#deletedScopeOf = deletedScopeOf;
    this.leases = new HandlerLeases({ open: this.#open, store, clock, stuckAfter, report });
    const ended = (job: Job, answer: reply.Reply) => this.#ended(job, answer);
    const { handle, run, changeOf } = createWork({ on, takesTests, store, leases: this.leases, clock, report, ended });
    this.handle = handle;
    this.changeOf = changeOf;
    this.#run = run;
  }

  /**
   * Handles a message. Returns its answer if that is available at once, else the job that will have it.
   *
   * @param scope - identifies the receiver and the sender
   */
  once(parsed: Parsed, verified: VerifiedFields, scope: string, log: Log): reply.Reply | Job {
    const key = verified.key === undefined ? undefined : `${scope}|${verified.key}`;
    const same = key === undefined ? undefined : this.#running.get(key);
    if (same !== undefined) return same;
    const change = this.changeOf(parsed, scope);
    const deletes = deletedBy(parsed, this.#deletedScopeOf(scope));
    const request = new OpenRequest(verified);
    if (key !== undefined || change !== undefined || deletes !== undefined) {
      const otherKeys = verified.others && otherKeysOf(verified.others, this.#scopeOf);
      request.opening = { key, otherKeys, change, holder: this.leases.newHolder(), deletes };
    }
    const job = new Job(parsed, request, log);
    const answer = change === undefined ? this.#run(job) : this.#runInTurn(job, change.name);
    if (answer !== undefined) return answer;
    this.#open.add(job);
    if (key !== undefined) this.#running.set(key, job);
    return job;
  }

  /** Waits for the current jobs, for this many milliseconds at most. */
  async settled(drain: number): Promise<void> {
    const jobs = [...this.#open].filter((each) => each instanceof Job);
    const ends = jobs.map((job) => new Promise<void>((resolve) => job.ask({ answered: () => resolve() }, 0)));
    await within<unknown>(this.#clock, drain, Promise.all(ends), () => undefined);
  }

  /** Like `settled`. Jobs that are not done by then are expired. */
  async drained(drain: number): Promise<void> {
    await this.settled(drain);
    for (const each of this.#open) if (each instanceof Job) each.request.expire();
  }

  /** Without turns, a slow "entered" could end after the "exited" that followed it. */
  #runInTurn(job: Job, name: string): reply.Reply | undefined {
    const before = this.#newest.get(name);
    const answer = before === undefined ? this.#run(job) : undefined;
    if (answer !== undefined) return answer;
    if (before !== undefined) before.next = job;
    this.#newest.set(name, job);
    return undefined;
  }

  /** Passes on the answer of an asynchronous job, then runs the changes that waited for it. */
  #ended(job: Job, answer: reply.Reply): void {
    let last: Job | undefined = job;
    for (let given: reply.Reply | undefined = answer; last !== undefined && given !== undefined; ) {
      const next: Job | undefined = last.next;
      this.#end(last, given);
      last = next;
      given = next && this.#run(next);
    }
  }

  #end(job: Job, answer: reply.Reply): void {
    const { opening } = job.request;
    this.#open.delete(job);
    if (opening?.key !== undefined) this.#running.delete(opening.key);
    if (opening?.change !== undefined && this.#newest.get(opening.change.name) === job) {
      this.#newest.delete(opening.change.name);
    }
    job.end(answer);
  }
}
