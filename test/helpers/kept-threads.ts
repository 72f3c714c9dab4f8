import { EventEmitter } from 'node:events';
import { syncBuiltinESMExports } from 'node:module';
import threads, {
  MessageChannel,
  type MessagePort,
  type Transferable,
  Worker,
  type WorkerOptions,
} from 'node:worker_threads';
import type { ThreadData } from '../../src/store/sqlite/thread/thread.ts';
import { isStoreThread } from './programs.ts';
import type { HostedStore } from './store-host.ts';

/** Threads whose store was closed. */
const idle: Worker[] = [];

/**
 * Stands in for the thread of a SQLite store. Node takes ten times as long to start a thread as to open a database in it, so that of
 * a store that was closed serves the next one; each still has one for itself. What else ends a thread ends this one, too.
 */
class KeptThread extends EventEmitter {
  private readonly host: Worker;
  private readonly port: MessagePort;
  private isClosing = false;

  constructor(options: WorkerOptions) {
    super();
    this.host = idle.pop() ?? startHost(options);
    const { port1, port2 } = new MessageChannel();
    this.port = port1;
    port1.on('message', (message) => this.emit('message', message));
    port1.on('messageerror', (error) => this.emit('messageerror', error));
    port1.once('close', () => this.release());
    this.host.on('error', this.onError).on('exit', this.onExit).ref();
    this.host.postMessage({ port: port2, data: options.workerData } satisfies HostedStore, [port2]);
  }

  postMessage(message: unknown, moved: readonly Transferable[] = []): void {
    if (message === 'close') this.isClosing = true;
    this.port.postMessage(message, moved);
  }

  terminate(): Promise<number> {
    this.isClosing = false;
    return this.host.terminate();
  }

  private readonly onError = (error: Error) => this.emit('error', error);
  private readonly onExit = (code: number) => this.emit('exit', code);

  private release(): void {
    if (!this.isClosing) return;
    this.host.off('error', this.onError).off('exit', this.onExit).unref();
    idle.push(this.host);
    this.emit('exit', 0);
  }
}

function startHost(options: WorkerOptions): Worker {
  const host = new Worker(new URL('./store-host.ts', import.meta.url), { ...options, workerData: null });
  host.once('exit', () => {
    const place = idle.indexOf(host);
    if (place !== -1) idle.splice(place, 1);
  });
  return host;
}

threads.Worker = new Proxy(threads.Worker, {
  construct(target, args: ConstructorParameters<typeof Worker>, made) {
    const [script, options = {}] = args;
    const data: ThreadData | undefined = options.workerData;
    // A failpoint that it passes stays armed in its thread.
    const isKept = isStoreThread(script) && data?.failpoint === null;
    return isKept ? new KeptThread(options) : Reflect.construct(target, args, made);
  },
});
syncBuiltinESMExports();
