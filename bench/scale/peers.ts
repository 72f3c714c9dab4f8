import { PgBoss } from 'pg-boss';
import { startGraphile } from '../forward/graphile.ts';
import { CONNECTIONS, type Driver, type Message, poster, type Work } from './work.ts';

export function graphile({ database, sink }: Work): Promise<Driver> {
  return startGraphile<Message>(database, poster(sink));
}

/** The limit: a queue in memory and loops that sign and post. */
export async function bare({ sink }: Work): Promise<Driver> {
  const post = poster(sink);
  const queue: Message[] = [];
  let running = 0;
  async function loop(): Promise<void> {
    running += 1;
    for (let message = queue.shift(); message; message = queue.shift()) await post(message, message.id);
    running -= 1;
  }
  return {
    async enqueue(messages) {
      queue.push(...messages);
      while (running < CONNECTIONS) void loop();
    },
    async stop() {},
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
  await queue.work('deliver', options, async (jobs: { id: string; data: Message }[]) => {
    await Promise.all(jobs.map(({ id, data }) => post(data, id)));
  });
  return {
    enqueue: (messages) =>
      queue.insert(
        'deliver',
        messages.map((data) => ({ data })),
      ),
    stop: () => queue.stop({ graceful: true, close: true }),
  };
}
