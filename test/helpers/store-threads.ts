import { EventEmitter } from 'node:events';
import { MessageChannel, type MessagePort, type Transferable, Worker } from 'node:worker_threads';
import type { Thread } from '../../src/store/sqlite/store-thread.ts';
import type { ThreadData } from '../../src/store/sqlite/thread.ts';
import type { HostedStore } from './store-host.ts';

/** Two, so that two stores on one file still work at the same time. */
const HOSTS = 2;
const hosts: Worker[] = [];
let started = 0;

/** Starting a thread takes ten times as long as opening a database in one, so the stores of a test file share two. */
export function startSharedThread(data: ThreadData): Thread {
  const place = started % HOSTS;
  started += 1;
  hosts[place] ??= startHost();
  return new SharedThread(hosts[place], data);
}

function startHost(): Worker {
  const host = new Worker(new URL('./store-host.ts', import.meta.url), { execArgv: [] });
  host.setMaxListeners(0);
  // The ports keep the process alive while stores are open.
  host.unref();
  return host;
}

/** The part of a thread that serves one store, as if it were a thread of its own. */
class SharedThread extends EventEmitter {
  private readonly port: MessagePort;

  constructor(host: Worker, data: ThreadData) {
    super();
    const { port1, port2 } = new MessageChannel();
    this.port = port1;
    const onError = (error: Error) => this.emit('error', error);
    host.on('error', onError);
    port1.on('message', (message) => this.emit('message', message));
    port1.on('messageerror', (error) => this.emit('messageerror', error));
    port1.once('close', () => {
      host.off('error', onError);
      this.emit('exit', 0);
    });
    host.postMessage({ port: port2, data } satisfies HostedStore, [port2]);
  }

  postMessage(message: unknown, moved: readonly Transferable[] = []): void {
    this.port.postMessage(message, moved);
  }

  async terminate(): Promise<number> {
    this.port.close();
    return 0;
  }
}
