import type { EventEmitter } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { Clock } from '../../../kernel/clock.ts';
import { type ErrorCode, RollcallError } from '../../../kernel/errors.ts';
import { armedFailpoint } from '../../../kernel/failpoint.ts';
import type { StoreEvents } from '../../port.ts';
import { isReading, type SharedCall } from '../../shared-ports.ts';
import { SteadiedTime } from '../../steadied-time.ts';
import { startOffset } from '../clock.ts';
import { damaged } from '../files.ts';
import { WriteAheadLog } from '../write-ahead-log.ts';
import { Commits } from './commits.ts';
import { AHEAD, GROUP_WEIGHT, HEAVY, OPERATION_WEIGHT, type OperationGroup, USUAL_MESSAGES } from './group.ts';
import type { ThreadData, ThreadReply, ThreadRequest } from './thread.ts';
import type { Operation, OperationResult, VerbArguments, VerbName, VerbResult } from './verbs.ts';

/*
 * The main thread's side of the SQLite store. Calls become groups, a group becomes a transaction in the store's thread, and
 * answers leave only once their commit is on disk. An operation goes through these modes:
 *
 * - queued: callers of one pass of the event loop wait for its end (`schedule`), so that they share a commit.
 * - sent: the thread has the group. While it works, only a large group is sent ahead of its answer (`AHEAD`), as each group
 *   costs both threads something.
 * - in commit: written, perhaps not on disk. The thread syncs light commits itself. Heavy ones (`HEAVY`) are synced from here
 *   while the thread goes on; `Commits` keeps their answers in order.
 * - answered: resolved or rejected by its own result.
 *
 * The store itself is open, damaged (SQLite reported corruption: records can still be read, nothing is written) or closed.
 * It closes for good when the thread ends, answers nonsense, or does not answer for two minutes; every call that waits is
 * then rejected, and `onFatal` ends the process.
 */

/**
 * Node's arguments for a thread. The command line's do not apply: loaders of a test runner would treble its start time.
 * Node 22 warns that its SQLite is experimental, which is no news to operators.
 */
export const THREAD_ARGUMENTS = ['--disable-warning=ExperimentalWarning'];

/** A power loss ends claims anyway, so a claim that it undoes changes nothing. */
const UNSYNCED: ReadonlySet<VerbName> = new Set(['claim', 'ping']);
/**
 * A group that is still at work after this many checks, this many milliseconds apart, is stuck: a disk in trouble may
 * take a minute. Checks count rather than time, which also passes while the whole process is stopped.
 */
const LOOKS = 24;
const LOOK_EVERY = 5_000;

type Results = Extract<ThreadReply, { results: unknown }>;

export type Thread = EventEmitter & Pick<Worker, 'postMessage' | 'terminate'>;

interface ThreadOptions {
  readonly path: string;
  readonly clock: Clock;
  readonly events: StoreEvents;
  /** Starts a thread of its own by default. */
  readonly start?: ((data: ThreadData) => Thread) | undefined;
}

function startWorker(workerData: ThreadData): Worker {
  return new Worker(new URL(`./thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url), {
    workerData,
    execArgv: THREAD_ARGUMENTS,
    // Its garbage is short-lived; the default would keep 100 MB of it. Node's --max-semi-space-size, if given, decides instead.
    resourceLimits: { maxYoungGenerationSizeMb: 16 },
  });
}

interface ThreadCaller {
  readonly needsSync: boolean;
  readonly weight: number;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

interface WaitingCall {
  readonly operation: Operation;
  /** The part that is kept once the operation is sent. */
  readonly caller: ThreadCaller;
}

/**
 * The main thread's side: collects operations while the thread is busy, and sends them as a group. Large commits are
 * synced here while the thread goes on. Nobody gets an answer before all commits up to it are on disk.
 */
export class StoreThread {
  private readonly worker: Thread;
  readonly time: SteadiedTime;
  private readonly events: StoreEvents;
  private readonly log: WriteAheadLog;
  private readonly commits = new Commits(
    () => this.log.sync(),
    () => this.goOn(),
    (error) => this.fail(`The store's log can't be synced to disk: ${error.message}.`),
  );
  private queue: WaitingCall[] = [];
  private queued = 0;
  /** Groups not answered by the thread, which answers in order. */
  private sent: (readonly ThreadCaller[])[] = [];
  private sentWeight = 0;
  private readonly inCommit = new Set<readonly ThreadCaller[]>();
  private scheduled = false;
  private closed: RollcallError | null = null;
  private damage: RollcallError | null = null;
  private onIdle: (() => void) | null = null;
  /** Calls that wait for a scrub; the thread answers in order. */
  private readonly scrubs: ((failure: { readonly code: ErrorCode; readonly message: string } | null) => void)[] = [];
  private readonly exited: Promise<void>;
  /** Null while nothing is at work, so that an idle process is not woken. */
  private watch: NodeJS.Timeout | null = null;
  private silent = 0;

  private constructor(worker: Thread, log: WriteAheadLog, time: SteadiedTime, events: StoreEvents) {
    this.worker = worker;
    this.log = log;
    this.time = time;
    this.events = events;
    this.exited = new Promise((resolve) => worker.once('exit', () => resolve()));
    worker.on('message', (reply: unknown) => this.hear(reply));
    worker.on('messageerror', (error) => this.fail(`The store's thread sent something unreadable: ${error.message}.`));
    worker.on('error', (error) => this.fail(`The store's thread ended: ${error.message}.`));
    worker.on('exit', (code) => this.fail(`The store's thread ended with code ${code}.`));
  }

  /** Start the thread and open the database; resolves to both and the store's own id. */
  static async open(options: ThreadOptions): Promise<{ thread: StoreThread; store: string }> {
    const { path, clock, events, start = startWorker } = options;
    const identity = { store: clock.token(5), suppressionKey: clock.token(32) };
    const worker = start({ path, identity, failpoint: armedFailpoint() });
    const reply = await firstReply(worker);
    if ('failed' in reply) {
      await worker.terminate();
      throw new RollcallError(reply.failed.code, reply.failed.message);
    }
    if (!('opened' in reply)) throw new RollcallError('store_failed', 'The store gave no answer.');
    const { store, time, damage } = reply.opened;
    const steadied = new SteadiedTime(clock, startOffset(clock, time));
    const log = await openLog(path, worker);
    const thread = new StoreThread(worker, log, steadied, events);
    if (damage !== null) thread.markDamaged(damaged(path, damage));
    return { thread, store };
  }

  /** @param messages - number of messages that the call is about */
  call<V extends VerbName>(verb: V, args: VerbArguments<V>, messages = USUAL_MESSAGES): Promise<VerbResult<V>> {
    if (this.damage) return Promise.reject(this.closed ?? this.damage);
    return this.perform({ ...this.moment(), verb, args }, messages) as Promise<VerbResult<V>>;
  }

  /** Like `call`, for records and live state; damaged data is still read. */
  shared(call: SharedCall): Promise<unknown> {
    if (this.damage && !isReading(call)) return Promise.reject(this.closed ?? this.damage);
    return this.perform({ ...this.moment(), shared: call }, USUAL_MESSAGES);
  }

  private moment(): Pick<Operation, 'now' | 'ahead'> {
    const now = this.time.now();
    return { now, ahead: this.time.offset };
  }

  private perform(operation: Operation, messages: number): Promise<unknown> {
    if (this.closed) return Promise.reject(this.closed);
    const needsSync = 'verb' in operation ? !UNSYNCED.has(operation.verb) : !isReading(operation.shared);
    const weight = OPERATION_WEIGHT + messages;
    return new Promise((resolve, reject) => {
      this.queue.push({ operation, caller: { needsSync, weight, resolve, reject } });
      this.queued += weight;
      this.schedule();
    });
  }

  scrub(): Promise<void> {
    const refusal = this.closed ?? this.damage;
    if (refusal) return Promise.reject(refusal);
    return new Promise((resolve, reject) => {
      this.scrubs.push((failure) => (failure ? reject(new RollcallError(failure.code, failure.message)) : resolve()));
      this.worker.postMessage('scrub' satisfies ThreadRequest);
    });
  }

  /** Stop all writes: each page written could lose more. */
  markDamaged(error: RollcallError): void {
    if (this.damage) return;
    this.damage = error;
    this.events.onDamaged(error);
  }

  /** Let pending calls finish, then end the thread. */
  async close(): Promise<void> {
    if (!this.closed) {
      this.closed = new RollcallError('store_closed', 'The store is closed.');
      this.endWatch();
      if (!this.isIdle) await new Promise<void>((resolve) => (this.onIdle = resolve));
      this.worker.postMessage('close' satisfies ThreadRequest);
    }
    await this.exited;
    this.log.close();
  }

  private get isIdle(): boolean {
    return this.queue.length + this.sent.length + this.inCommit.size === 0;
  }

  /** Wait for the end of this pass of the event loop, so that its callers share a commit. */
  private schedule(): void {
    if (this.scheduled || !this.maySend) return;
    this.scheduled = true;
    setImmediate(() => {
      this.scheduled = false;
      this.send();
    });
  }

  private get maySend(): boolean {
    if (this.sent.length > 0) return this.queued >= AHEAD && this.sentWeight < GROUP_WEIGHT;
    return !this.commits.isSyncing || this.queued >= HEAVY;
  }

  private send(): void {
    if (!this.maySend || this.queue.length === 0) return;
    let count = 0;
    let weight = 0;
    for (; count < this.queue.length && weight < GROUP_WEIGHT; count += 1)
      weight += this.queue[count]?.caller.weight ?? 0;
    const group = this.queue.splice(0, count);
    const callers = group.map(({ caller }) => caller);
    this.queued -= weight;
    this.sent.push(callers);
    this.sentWeight += weight;
    // Not by the injected clock: it watches a thread of this process, not the outside world.
    this.watch ??= setInterval(() => this.look(), LOOK_EVERY).unref();
    const operations = group.map(({ operation }) => operation);
    const needsSync = callers.some((caller) => caller.needsSync);
    this.worker.postMessage({ operations, needsSync, weight } satisfies OperationGroup);
  }

  /** Handle an answer. An unexpected one would leave a caller waiting for ever, or give it another's result. */
  private hear(reply: unknown): void {
    if (isObject(reply) && 'scrubbed' in reply && this.scrubs.length > 0) {
      this.scrubs.shift()?.((reply as Extract<ThreadReply, { scrubbed: unknown }>).scrubbed);
      return;
    }
    if (isObject(reply) && 'lost' in reply) {
      this.fail(String(reply.lost), 'store_missing');
      return;
    }
    const { results = [], groups = 0, needsSync = false } = isResults(reply) ? reply : {};
    const answered = this.sent.slice(0, groups).flat();
    const { length } = answered;
    if (length === 0 || results.length !== length || !results.every(isObject)) {
      this.fail("The store's thread sent an unexpected answer.");
      return;
    }
    this.sent.splice(0, groups);
    for (const { weight } of answered) this.sentWeight -= weight;
    this.commit(answered, results, needsSync);
  }

  private commit(group: readonly ThreadCaller[], results: readonly OperationResult[], needsSync: boolean): void {
    this.inCommit.add(group);
    this.silent = 0;
    this.commits.add({ needsSync, answer: () => this.answer(group, results) });
    this.goOn();
  }

  private answer(group: readonly ThreadCaller[], results: readonly OperationResult[]): void {
    this.inCommit.delete(group);
    this.silent = 0;
    for (const [index, { resolve, reject }] of group.entries()) {
      const result = results[index];
      if (result && 'value' in result) resolve(result.value);
      else reject(this.failureOf(result));
    }
  }

  private goOn(): void {
    this.send();
    if (this.isIdle) this.onIdle?.();
  }

  private failureOf(result: Exclude<OperationResult, { value: unknown }> | undefined): RollcallError {
    const code = (result?.code ?? 'store_failed') as ErrorCode;
    const error = new RollcallError(code, result?.message ?? 'No answer.');
    if (code === 'store_damaged') this.markDamaged(error);
    return error;
  }

  private look(): void {
    this.silent += 1;
    if (this.isIdle) this.endWatch();
    else if (this.silent > LOOKS) this.fail("The store's thread is stuck: it has not answered for two minutes.");
  }

  private endWatch(): void {
    clearInterval(this.watch ?? undefined);
    this.watch = null;
    this.silent = 0;
  }

  /** End the store for good, unless it has been closed. */
  private fail(message: string, code: ErrorCode = 'store_failed'): void {
    this.endWatch();
    const wasOpen = this.closed === null;
    const error = new RollcallError(code, message);
    this.closed ??= error;
    const lost = [...[...this.inCommit].flat(), ...this.sent.flat(), ...this.queue.map(({ caller }) => caller)];
    this.inCommit.clear();
    this.sent = [];
    this.sentWeight = 0;
    this.queue = [];
    this.queued = 0;
    for (const { reject } of lost) reject(this.closed);
    for (const done of this.scrubs.splice(0)) done(this.closed);
    this.onIdle?.();
    // A store that was lost before it was closed did not keep what it had acknowledged.
    if (wasOpen || code === 'store_missing') this.events.onFatal(error);
    if (wasOpen) void this.worker.terminate();
  }
}

async function openLog(path: string, worker: Thread): Promise<WriteAheadLog> {
  try {
    return new WriteAheadLog(path);
  } catch (error) {
    await worker.terminate();
    throw new RollcallError('store_failed', `The store's log can't be opened: ${(error as Error).message}.`);
  }
}

/** Resolve to the first message; a thread that ends before it has failed to start. */
function firstReply(worker: Thread): Promise<ThreadReply> {
  const { promise, resolve, reject } = Promise.withResolvers<ThreadReply>();
  const fail = (why: string) =>
    reject(new RollcallError('store_failed', `The store's thread could not start: ${why}.`));
  const onError = (error: Error) => fail(error.message);
  const onExit = (code: number) => fail(`it ended with code ${code}`);
  worker.once('message', resolve).once('error', onError).once('exit', onExit);
  return promise.finally(() => worker.off('message', resolve).off('error', onError).off('exit', onExit));
}

function isResults(reply: unknown): reply is Results {
  return isObject(reply) && 'results' in reply && Array.isArray(reply.results) && 'groups' in reply;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
