import { makeWorkerUtils, run } from 'graphile-worker';
import { PgBoss } from 'pg-boss';
import { CONNECTIONS, type Driver, poster, type Work } from './work.ts';

/** Set up as its documentation advises for throughput: a local queue, batched completions. */
export async function graphile({ database, sink }: Work): Promise<Driver> {
  const post = poster(sink);
  const utils = await makeWorkerUtils({ connectionString: database });
  const runner = await run({
    connectionString: database,
    concurrency: CONNECTIONS,
    noHandleSignals: true,
    logger: silent(),
    taskList: { deliver: (payload: object, { job }: { job: { id: string } }) => post(payload, job.id) },
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
    enqueue: (bodies) => utils.addJobs(bodies.map((payload) => ({ identifier: 'deliver', payload }))),
    async stop() {
      await runner.stop();
      await utils.release();
    },
  };
}

/** Batches that follow each other without a pause while they come back full, as many as connections allow. */
export async function boss({ database, sink }: Work): Promise<Driver> {
  const post = poster(sink);
  const queue = new PgBoss({ connectionString: database, max: 10 });
  queue.on('error', (error: Error) => console.error(error.message));
  await queue.start();
  await queue.createQueue('deliver').catch(() => undefined);
  const options = { batchSize: 100, localConcurrency: 4, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true };
  await queue.work('deliver', options, async (jobs: { id: string; data: object }[]) => {
    await Promise.all(jobs.map(({ id, data }) => post(data, id)));
  });
  return {
    enqueue: (bodies) =>
      queue.insert(
        'deliver',
        bodies.map((data) => ({ data })),
      ),
    stop: () => queue.stop({ graceful: true, close: true }),
  };
}

function silent() {
  const logger = { scope: () => logger, error: console.error, warn() {}, info() {}, debug() {} };
  return logger;
}
