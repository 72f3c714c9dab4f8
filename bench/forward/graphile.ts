import { makeWorkerUtils, run } from 'graphile-worker';
import { CONNECTIONS, type Forwarder, type Item, poster, type Work } from './work.ts';

const silent = { error() {}, warn() {}, info() {}, debug() {}, scope: () => silent };

/** Set up as its documentation advises for throughput: a local queue, batched completions. */
export async function graphile({ url, onDelivered }: Work, database: string): Promise<Forwarder> {
  const { post, close } = poster(url);
  const utils = await makeWorkerUtils({ connectionString: database });
  const runner = await run({
    connectionString: database,
    noHandleSignals: true,
    logger: silent,
    taskList: {
      deliver: async ({ index, body }: Item, { job }: { job: { id: string } }) => {
        await post(body, job.id);
        onDelivered(index);
      },
    },
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
    enqueue: (items) => utils.addJobs(items.map((payload) => ({ identifier: 'deliver', payload }))),
    async stop() {
      await runner.stop();
      await utils.release();
      await close();
    },
  };
}
