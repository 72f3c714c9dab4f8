import { EventEmitter } from 'node:events';
import { MessageChannel, type MessagePort, type Transferable, Worker } from 'node:worker_threads';
import type { Thread } from '../../src/store/sqlite/thread/store-thread.ts';
import { serve, type ThreadData } from '../../src/store/sqlite/thread/thread.ts';
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
  const host = hosts[place];
  const { port1, port2 } = new MessageChannel();
  const thread = new PortThread(port1);
  const onError = (error: Error) => thread.emit('error', error);
  host.on('error', onError);
  thread.once('exit', () => host.off('error', onError));
  host.postMessage({ port: port2, data } satisfies HostedStore, [port2]);
  return thread;
}

/**
 * A store in memory works on the thread of its test: a message to another thread and back costs more than most of what is
 * asked for. Nobody else has its database, so nothing in it waits.
 */
export function startLocalThread(data: ThreadData): Thread {
  const { port1, port2 } = new MessageChannel();
  void serve(port2, data);
  return new PortThread(port1);
}

function startHost(): Worker {
  const host = new Worker(new URL('./store-host.ts', import.meta.url), { execArgv: [] });
  host.setMaxListeners(0);
  // The ports keep the process alive while stores are open.
  host.unref();
  return host;
}

/** What serves one store behind a port, as if it were a thread of its own. */
class PortThread extends EventEmitter {
  private readonly port: MessagePort;

  constructor(port: MessagePort) {
    super();
    this.port = port;
    port.on('message', (message) => this.emit('message', message));
    port.on('messageerror', (error) => this.emit('messageerror', error));
    port.once('close', () => this.emit('exit', 0));
  }

  postMessage(message: unknown, moved: readonly Transferable[] = []): void {
    this.port.postMessage(message, moved);
  }

  async terminate(): Promise<number> {
    this.port.close();
    return 0;
  }
}
