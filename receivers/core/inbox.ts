import { within } from '../clock.ts';
import type { Log } from '../options.ts';
import type { Parsed } from '../parse/messages.ts';
import { parseMessage } from '../parse/parse.ts';
import { deletedBy, type Inbox, type KeptRequest, type Opening, type StoredRequest } from '../store.ts';
import { Breaks } from './breaks.ts';
import { Job } from './job.ts';
import { keepOnce, otherKeysOf } from './other-keys.ts';
import * as reply from './reply.ts';
import { OpenRequest, type RequestFields } from './request.ts';
import { handle, type Work } from './work.ts';

/** Milliseconds between the tries of a stored message. After the last one it is given up. */
const WAITS = [1000, 5000, 30_000, 120_000, 600_000];
/** Milliseconds until a change is retried if another process is working on its user. */
const BUSY_WAIT = 100;
/** Milliseconds between checks for requests that another process has stored, or that are due again. */
const LOOK_INTERVAL = 1_000;
/** A request that was running during this many crashes may have caused them: it is tried alone, then given up. */
const SUSPECT_CRASHES = 2;
const CRASH_LIMIT = 3;
/** Characters of the error kept with a request that was given up. */
const REASON_LIMIT = 200;

/** A verified message on its way into the store. */
export interface InboxArrival {
  readonly parsed: Parsed;
  readonly verified: RequestFields;
}

/** Stores messages, answers, and runs the handlers afterwards. Retries when they fail. */
export class InboxWorker {
  readonly #work: Work;
  readonly #store: Inbox;
  readonly #owner: string;
  readonly #breaks: Breaks;
  readonly #working = new Map<string, Promise<void>>();
  #log: Log | undefined;
  #owns = false;
  /** True while a suspect runs. It runs alone, so that no other request is blamed if the process ends. */
  #alone = false;
  #looking: Promise<void> | undefined;
  #lookAgain = false;
  #cancelLook = () => {};
  #closing = false;

  constructor(work: Work, store: Inbox) {
    this.#work = work;
    this.#store = store;
    this.#owner = work.leases.newHolder();
    this.#breaks = new Breaks(work.clock.now);
  }

  /**
   * Stores messages in one transaction. Returns an answer for each. Never fails.
   *
   * @param scope - identifies the receiver and the sender
   */
  async accept(arrivals: readonly InboxArrival[], scope: string, log: Log): Promise<reply.Reply[]> {
    const { report, scopeOf } = this.#work;
    const requests = new Map<InboxArrival, StoredRequest>();
    for (const each of arrivals) {
      const { parsed, verified } = each;
      if (!parsed.ok) continue;
      const { rawBody: body, url, secret, others } = verified;
      const key = `${scope}|${verified.key ?? crypto.randomUUID()}`;
      const { userId } = parsed.message as { userId?: unknown };
      const user = typeof userId === 'string' ? userId : undefined;
      requests.set(each, { key, otherKeys: others && otherKeysOf(others, scopeOf), body, url, secret, scope, user });
    }
    let kept: reply.Reply[];
    try {
      const news = requests.size > 0 ? await keepOnce(this.#store, [...requests.values()]) : [];
      kept = news.map((isNew) => (isNew ? reply.stored : reply.duplicate));
    } catch (error) {
      report(error, { stage: 'store' }, log);
      kept = [...requests].map(() => reply.storeFailed);
    }
    this.#look();
    const answers = kept.values();
    return Promise.all(
      arrivals.map((each) => (requests.has(each) ? (answers.next().value as reply.Reply) : this.#refuse(each, log))),
    );
  }

  /** Answers a body that is not a message, without storing it. */
  async #refuse({ parsed, verified }: InboxArrival, log: Log): Promise<reply.Reply> {
    const job = new Job(parsed, new OpenRequest(verified), log);
    try {
      await handle(this.#work, job);
      return job.answer as reply.Reply;
    } catch (error) {
      this.#work.report(error, { stage: 'invalid' }, log);
      return reply.failed;
    }
  }

  /** Starts to work on stored requests. */
  resume(log: Log): void {
    this.#log = log;
    this.#look();
  }

  /** Waits for running requests. The next process, or the next start, resumes the rest. */
  async close(): Promise<void> {
    const { clock, drain, name } = this.#work;
    this.#closing = true;
    this.#cancelLook();
    await this.#looking;
    await within(clock, drain, Promise.all(this.#working.values()), () => []);
    // Running requests stay held until the lease ends.
    if (this.#owns && this.#working.size === 0) await this.#store.disown(this.#owner, name);
  }

  /** Looks for work, one look at a time. Calls during a look cause one more. */
  #look(): void {
    if (this.#closing || this.#log === undefined) return;
    this.#lookAgain = true;
    this.#looking ??= this.#lookOften(this.#log);
  }

  async #lookOften(log: Log): Promise<void> {
    const { clock, report } = this.#work;
    this.#cancelLook();
    try {
      while (this.#lookAgain && !this.#closing) {
        this.#lookAgain = false;
        await this.#take(log);
      }
    } catch (error) {
      report(error, { stage: 'store', late: true }, log);
    }
    this.#looking = undefined;
    if (!this.#closing) this.#cancelLook = clock.after(LOOK_INTERVAL, () => this.#look(), { background: true });
  }

  async #take(log: Log): Promise<void> {
    const { concurrency, name } = this.#work;
    this.#owns = await this.#store.own(this.#owner, name);
    if (!this.#owns || this.#alone) return;
    const due = await this.#store.due(concurrency - this.#working.size, [...this.#working.keys()], name);
    for (const request of due) {
      await this.#breaks.next();
      if (this.#closing) return;
      if (request.crashes < SUSPECT_CRASHES) this.#begin(request, log);
      else if (this.#working.size === 0) {
        this.#alone = true;
        this.#begin(request, log);
        return;
      }
    }
  }

  #begin(request: KeptRequest, log: Log): void {
    const work = this.#try(request, log)
      .catch((error) => this.#work.report(error, { stage: 'store', late: true }, log))
      .then(() => {
        this.#working.delete(request.key);
        if (this.#working.size === 0) this.#alone = false;
        this.#look();
      });
    this.#working.set(request.key, work);
  }

  async #try(kept: KeptRequest, log: Log): Promise<void> {
    const { clock, report, changeOf, leases, deletedScopeOf } = this.#work;
    const store = this.#store;
    const { key, body, url, secret, scope, crashes } = kept;
    const parsed = parseMessage(body);
    const message = parsed.ok ? parsed.message : undefined;
    const request = new OpenRequest({ rawBody: body, url, key, secret });
    if (crashes >= CRASH_LIMIT) {
      const reason = `The process ended ${crashes} times while it handled this request.`;
      await store.giveUp(key, reason);
      report(new Error(reason), { stage: 'handler', late: true, gaveUp: true, message, request }, log);
      return;
    }
    const deletes = deletedBy(parsed, deletedScopeOf(scope));
    const opening = { key, change: changeOf(parsed, scope), holder: leases.newHolder(), deletes };
    request.opening = opening;
    const state = await store.begin(opening);
    if (state === 'stale' || state === 'done') return this.#pass({ ...opening, change: undefined });
    if (state !== 'new') return store.tryAgain(key, clock.now() + BUSY_WAIT);
    await this.#breaks.next();
    if (this.#closing) return store.release(opening);
    await store.tried(key);
    try {
      await this.#handle(new Job(parsed, request, log));
      if (request.abandonment !== undefined) throw request.abandonment;
      await store.done(opening);
    } catch (error) {
      await store.release(opening);
      await this.#failed(kept, error);
      report(error, { stage: 'handler', late: true, gaveUp: this.#isLast(kept), message, request }, log);
    }
  }

  /** Runs the handlers. Fails if they fail, or are given up. */
  async #handle(job: Job): Promise<void> {
    const { leases } = this.#work;
    leases.open.add(job);
    try {
      await new Promise<unknown>((resolve, reject) => {
        leases.hold(job, () => reject(new Error('the handler was given up')));
        resolve(handle(this.#work, job));
      });
    } finally {
      leases.end(job);
      leases.open.delete(job);
      job.end(job.answer ?? reply.failed);
    }
  }

  /** Ends a request without handling it, because the change or a newer one was handled. */
  async #pass(opening: Opening): Promise<void> {
    if ((await this.#store.begin(opening)) === 'new') await this.#store.done(opening);
  }

  #isLast({ tries }: KeptRequest): boolean {
    return tries >= WAITS.length;
  }

  async #failed(request: KeptRequest, error: unknown): Promise<void> {
    const { key, tries } = request;
    if (this.#isLast(request)) await this.#store.giveUp(key, reasonOf(error));
    else await this.#store.tryAgain(key, this.#work.clock.now() + (WAITS[tries] as number));
  }
}

/** Handlers may throw anything, such as an object without a prototype. */
function reasonOf(thrown: unknown): string {
  try {
    return String(thrown).slice(0, REASON_LIMIT);
  } catch {
    return 'The handler threw something that cannot be turned into text.';
  }
}
