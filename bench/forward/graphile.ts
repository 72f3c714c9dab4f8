import { makeWorkerUtils, run } from 'graphile-worker';
import { CONNECTIONS, type Forwarder, type Item, poster, type Work } from './work.ts';

const silent = { error() {}, warn() {}, info() {}, debug() {}, scope: () => silent };

/** Set up as its documentation advises for throughput: a local queue, batched completions. */
export async function startGraphile<T extends object>(
  database: string,
  deliver: (payload: T, id: string) => Promise<void>,
): Promise<{ enqueue(payloads: readonly T[]): Promise<unknown>; stop(): Promise<void> }> {
  const utils = await makeWorkerUtils({ connectionString: database });
  const runner = await run({
    connectionString: database,
    noHandleSignals: true,
    logger: silent,
    taskList: { deliver: (payload: T, { job }: { job: { id: string } }) => deliver(payload, job.id) },
    preset: {
      worker: {
        concurrentJobs: CONNECTIONS,
        maxPoolSize: 10,
        localQueue: { size: 500 },
        completeJobBatchDelay: 1,
        failJobBatchDelay: 1,
      },
    },
  });
  return {
    enqueue: (payloads) => utils.addJobs(payloads.map((payload) => ({ identifier: 'deliver', payload }))),
    async stop() {
      await runner.stop();
      await utils.release();
    },
  };
}

export async function graphile(work: Work, database: string): Promise<Forwarder> {
  const { post, close } = poster(work);
  const { enqueue, stop } = await startGraphile<Item>(database, async ({ index, body }, id) => {
    await post(body, id);
    work.onDelivered(index);
  });
  return {
    enqueue: async (items) => void (await enqueue(items)),
    async stop() {
      await stop();
      await close();
    },
  };
}
