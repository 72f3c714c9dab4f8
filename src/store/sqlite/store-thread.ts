import { Worker } from 'node:worker_threads';
import type { Clock } from '../../clock.ts';
import { type ErrorCode, RollcallError } from '../../errors.ts';
import { armedFailpoint } from '../../failpoint.ts';
import type { ThreadData, ThreadReply, ThreadRequest } from './thread.ts';
import type { Operation, OperationResult, VerbArguments, VerbName, VerbResult } from './verbs.ts';

/** Operations in one transaction at most; what exceeds it goes into the next. */
const GROUP_LIMIT = 64;

interface Waiting {
  readonly operation: Operation;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** The main thread's side: gathers operations while the thread is busy, and sends them as one group. */
export class StoreThread {
  private readonly worker: Worker;
  private readonly clock: Clock;
  private queue: Waiting[] = [];
  private inWork: Waiting[] = [];
  private scheduled = false;
  private closed: RollcallError | null = null;
  private onIdle: (() => void) | null = null;
  private readonly exited: Promise<void>;

  private constructor(worker: Worker, clock: Clock) {
    this.worker = worker;
    this.clock = clock;
    this.exited = new Promise((resolve) => worker.once('exit', () => resolve()));
    worker.on('message', (reply: ThreadReply) => {
      if ('results' in reply) this.finish(reply.results);
    });
    worker.on('error', (error) => this.fail(`The store's thread ended: ${error.message}.`));
    worker.on('exit', () => this.fail('The store is closed.'));
  }

  /** Starts the thread and opens the database; resolves to both and the store's own id. */
  static async open(path: string, clock: Clock): Promise<{ thread: StoreThread; store: string }> {
    const identity = { store: clock.token(5), suppressionKey: clock.token(32) };
    const workerData: ThreadData = { path, identity, failpoint: armedFailpoint() };
    const worker = new Worker(new URL(`./thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url), {
      workerData,
      // Nothing of the command line concerns this thread; loaders of a test runner would treble the time to start it.
      execArgv: [],
      // Its garbage is short-lived; the default would let 100 MB of it lie about.
      resourceLimits: { maxYoungGenerationSizeMb: 24 },
    });
    const reply = await new Promise<ThreadReply>((resolve, reject) => {
      worker.once('message', resolve);
      worker.once('error', reject);
    });
    if ('failed' in reply) {
      await worker.terminate();
      throw new RollcallError(reply.failed.code, reply.failed.message);
    }
    return { thread: new StoreThread(worker, clock), store: 'opened' in reply ? reply.opened : '' };
  }

  call<V extends VerbName>(verb: V, args: VerbArguments<V>): Promise<VerbResult<V>> {
    if (this.closed) return Promise.reject(this.closed);
    return new Promise((resolve, reject) => {
      const operation: Operation = { verb, now: this.clock.now(), args };
      this.queue.push({ operation, resolve: resolve as (value: unknown) => void, reject });
      this.schedule();
    });
  }

  /** Lets what was asked for finish, then ends the thread. */
  async close(): Promise<void> {
    if (!this.closed) {
      this.closed = new RollcallError('store_closed', 'The store is closed.');
      if (this.queue.length + this.inWork.length > 0) await new Promise<void>((resolve) => (this.onIdle = resolve));
      this.worker.postMessage('close' satisfies ThreadRequest);
    }
    await this.exited;
  }

  /** Waits for the end of this turn, so that callers of the same turn share a commit. */
  private schedule(): void {
    if (this.scheduled || this.inWork.length > 0) return;
    this.scheduled = true;
    setImmediate(() => {
      this.scheduled = false;
      this.send();
    });
  }

  private send(): void {
    this.inWork = this.queue.splice(0, GROUP_LIMIT);
    if (this.inWork.length === 0) return;
    const operations = this.inWork.map(({ operation }) => operation);
    this.worker.postMessage({ operations } satisfies ThreadRequest);
  }

  private finish(results: readonly OperationResult[]): void {
    const done = this.inWork;
    this.inWork = [];
    this.send();
    for (const [index, { resolve, reject }] of done.entries()) {
      const result = results[index];
      if (result && 'value' in result) resolve(result.value);
      else reject(new RollcallError((result?.code ?? 'store_failed') as ErrorCode, result?.message ?? 'No answer.'));
    }
    if (this.inWork.length === 0) this.onIdle?.();
  }

  private fail(message: string): void {
    this.closed ??= new RollcallError('store_failed', message);
    const lost = [...this.inWork, ...this.queue];
    this.inWork = [];
    this.queue = [];
    for (const { reject } of lost) reject(this.closed);
    this.onIdle?.();
  }
}
