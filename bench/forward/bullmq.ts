import { Queue, Worker } from 'bullmq';
import { CONNECTIONS, type Forwarder, type Item, poster, type Work } from './work.ts';

/** One worker of 64 jobs at a time; Redis syncs its log once a second, which is what it comes with. */
export async function bullmq(work: Work, port: string): Promise<Forwarder> {
  const { post, close } = poster(work);
  const connection = { host: '127.0.0.1', port: Number(port), maxRetriesPerRequest: null };
  const queue = new Queue('deliver', { connection, defaultJobOptions: { removeOnComplete: true } });
  const deliver = async ({ id, data }: { id: string; data: Item }) => {
    await post(data.body, id);
    work.onDelivered(data.index);
  };
  const worker = new Worker('deliver', deliver, { connection, concurrency: CONNECTIONS });
  await worker.waitUntilReady();
  return {
    async enqueue(items) {
      await queue.addBulk(items.map((data) => ({ name: 'deliver', data })));
    },
    async stop() {
      await worker.close();
      await queue.close();
      await close();
    },
  };
}
