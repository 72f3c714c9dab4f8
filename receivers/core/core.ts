import { systemClock, within } from '../clock.ts';
import type { CoreOptions, Log } from '../options.ts';
import type { Batch } from '../parse/envelope.ts';
import type { Parsed } from '../parse/messages.ts';
import { checkNumber } from '../parse/numbers.ts';
import { isObject } from '../parse/objects.ts';
import { type ParsedBody, parseBody } from '../parse/parse.ts';
import { deletedBy, type Inbox, memoryStore } from '../store.ts';
import type { Signatures } from '../verify/signatures.ts';
import { Verifier } from '../verify/verifier.ts';
import { BatchRun, batchReply } from './batch.ts';
import { createDeadlines, DEADLINE } from './deadlines.ts';
import { checkHandlers } from './handler-names.ts';
import { InboxWorker } from './inbox.ts';
import { Job, WaitingRequest } from './job.ts';
import { checkOptionNames } from './option-names.ts';
import { otherKeysOf, withOtherKeys } from './other-keys.ts';
import type { CoreParts } from './parts.ts';
import { PassingMap } from './passing.ts';
import * as reply from './reply.ts';
import { createReport } from './report.ts';
import { BatchItem, OpenRequest, type RequestFields, type VerifiedFields } from './request.ts';
import { createWork, run, type Work } from './work.ts';

/** Milliseconds until the sender gives up on an answer. */
const SENDER_WAIT = 5_000;

type Answered = (answer: reply.Reply) => void;

/** The part of the kit that all edges share. It takes verified bytes and answers them. */
export type Core = ReturnType<typeof createCore>;

/**
 * @param hasOwnTimers - true if a timer ends with the request that set it, as on some edge runtimes
 * @throws TypeError when the secret is missing or empty, or an option is invalid
 */
export function createCore(options: CoreOptions, signatures: Signatures, hasOwnTimers = false) {
  checkOptions(options);
  const { on, name = '', test = false, deadline = DEADLINE, drain = 10_000, clock = systemClock } = options;
  const { store = memoryStore({ now: clock.now }), stuckAfter = 15 * 60_000, concurrency = 16 } = options;
  const reads = createDeadlines(clock, !hasOwnTimers);
  const waits = createDeadlines(clock, !hasOwnTimers);
  let closing = false;

  const report = createReport(on);
  const verifier = new Verifier(options, signatures, (error, _, log) => report(error, { stage: 'secret' }, log));
  const isOneKeyed = (options.signing ?? 'x-signature') === 'x-signature';
  const scopeOf = (sender: string) => `${name}|${sender}`;
  const jobs = new Jobs({
    on,
    name,
    test,
    store: isOneKeyed ? store : withOtherKeys(store),
    clock,
    drain,
    stuckAfter,
    concurrency,
    report,
    scopeOf,
    // Unless secrets belong to tenants, requests signed with a former secret are about the same users.
    deletedScopeOf: (scope) => (typeof options.secret === 'function' ? scope : scopeOf('')),
  });
  const { leases } = jobs.work;
  const inbox = options.ack === 'stored' ? new InboxWorker(jobs.work, store as Inbox) : undefined;

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
    ends: { answered: Answered; failed(error: unknown): void },
  ): void {
    const scope = scopeOf(verified.sender);
    const waiting = new BatchRun({
      ...ends,
      size: batch.keys.length,
      deadline: verified.since + deadline,
      waits,
      now: clock.now,
      handle: (index) => jobs.once(batch.message(index), new BatchItem(verified, batch, index), scope, log),
    });
    waits.watch(waiting);
    waiting.start();
  }

  /** Stores the messages, then answers. */
  async function keep(inbox: InboxWorker, body: ParsedBody, verified: VerifiedFields, log: Log): Promise<reply.Reply> {
    const scope = scopeOf(verified.sender);
    if (!('batch' in body)) {
      const [only] = await inbox.accept([{ parsed: body, verified }], scope, log);
      return only as reply.Reply;
    }
    const { batch } = body;
    const itemOf = (index: number) => new BatchItem(verified, batch, index);
    const arrivals = batch.keys.map((_, index) => ({ parsed: batch.message(index), verified: itemOf(index) }));
    return batchReply(await inbox.accept(arrivals, scope, log));
  }

  return {
    verifier,
    report,
    now: clock.now,
    isClosing: () => closing,
    /** Calls back when a body that began to arrive at `since` takes too long. Returns a function that cancels. */
    reading: (since: number, cut: () => void) => reads.add(since + deadline, cut),
    /** Calls back with the answer, synchronously if it is available. Never fails. */
    accept(verified: VerifiedFields, log: Log, answered: Answered): void {
      if (closing) return void answered(reply.closing);
      leases.catchUp(verified.since);
      const failed = (error: unknown) => {
        report(error, { stage: 'host' }, log);
        answered(reply.crashed);
      };
      try {
        const body = parseBody(verified.rawBody);
        const tooOld = 'batch' in body ? verifier.age(body.batch.sentAt, verified, log) : undefined;
        if (tooOld !== undefined) answered(tooOld);
        else if (inbox !== undefined) keep(inbox, body, verified, log).then(answered, failed);
        else if ('batch' in body) acceptBatch(body.batch, verified, log, { answered, failed });
        else acceptOne(body, verified, log, answered);
      } catch (error) {
        failed(error);
      }
    },
    /** Resolves once the handlers running now are done, after `drain` at the latest. */
    settled: () => jobs.settled(),
    /** Call at start. Resumes stored messages that are not finished, and logs doubtful options. */
    async resume(log: Log): Promise<void> {
      if (verifier.isUnset) log.warn({}, 'the shared secret is not set: webhooks will be answered 503');
      if (deadline >= SENDER_WAIT) log.warn({ deadline }, `the sender waits only ${SENDER_WAIT} ms for an answer`);
      inbox?.resume(log);
    },
    /** Answers 503 from now on and waits for the handlers, including late ones. */
    async close(): Promise<void> {
      closing = true;
      reads.close();
      await Promise.all([jobs.drained(), inbox?.close()]);
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

/** Messages in progress. Repetitions of a message share one job; changes of one name run in turn. */
class Jobs {
  readonly work: Work;
  readonly #running = new PassingMap<string, Job>();
  /** The newest change of each name that is running or waiting for its turn. */
  readonly #newest = new PassingMap<string, Job>();

  constructor(parts: CoreParts) {
    this.work = createWork(parts, (job, answer) => this.#ended(job, answer));
  }

  /**
   * Handles a message. Returns its answer if that is available at once, else the job that will have it.
   *
   * @param scope - identifies the receiver and the sender
   */
  once(parsed: Parsed, verified: RequestFields, scope: string, log: Log): reply.Reply | Job {
    const key = verified.key === undefined ? undefined : `${scope}|${verified.key}`;
    const same = key === undefined ? undefined : this.#running.get(key);
    if (same !== undefined) return same;
    const { changeOf, deletedScopeOf, scopeOf, leases } = this.work;
    const change = changeOf(parsed, scope);
    const deletes = deletedBy(parsed, deletedScopeOf(scope));
    const request = new OpenRequest(verified);
    if (key !== undefined || change !== undefined || deletes !== undefined) {
      const otherKeys = verified.others && otherKeysOf(verified.others, scopeOf);
      request.opening = { key, otherKeys, change, holder: leases.newHolder(), deletes };
    }
    const job = new Job(parsed, request, log);
    const answer = change === undefined ? run(this.work, job) : this.#runInTurn(job, change.name);
    if (answer !== undefined) return answer;
    leases.open.add(job);
    if (key !== undefined) this.#running.set(key, job);
    return job;
  }

  /** Waits for the current jobs, for `drain` milliseconds at most. */
  async settled(): Promise<void> {
    const { clock, drain, leases } = this.work;
    const ends = [...leases.open].map((job) => new Promise((answered) => job.ask({ answered }, 0)));
    await within<unknown>(clock, drain, Promise.all(ends), () => undefined);
  }

  /** Like `settled`. Jobs that are not done by then are expired. */
  async drained(): Promise<void> {
    await this.settled();
    for (const { request } of this.work.leases.open) request.expire();
  }

  /** Without turns, a slow "entered" could end after the "exited" that followed it. */
  #runInTurn(job: Job, name: string): reply.Reply | undefined {
    const before = this.#newest.get(name);
    const answer = before === undefined ? run(this.work, job) : undefined;
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
      given = next && run(this.work, next);
    }
  }

  #end(job: Job, answer: reply.Reply): void {
    const { opening } = job.request;
    this.work.leases.open.delete(job);
    if (opening?.key !== undefined) this.#running.delete(opening.key);
    if (opening?.change !== undefined && this.#newest.get(opening.change.name) === job) {
      this.#newest.delete(opening.change.name);
    }
    job.end(answer);
  }
}
