import { type MessagePort, parentPort } from 'node:worker_threads';
import { serve, type ThreadData } from '../../src/store/sqlite/thread/thread.ts';

/** A thread in which stores are opened, each behind a port of its own. */
export interface HostedStore {
  readonly port: MessagePort;
  readonly data: ThreadData;
}

parentPort?.on('message', ({ port, data }: HostedStore) => void serve(port, data));
