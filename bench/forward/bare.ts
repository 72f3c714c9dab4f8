import { CONNECTIONS, type Forwarder, type Item, poster, type Work } from './work.ts';

/** The limit: a queue in memory and a loop that signs and posts. */
export async function bare(work: Work): Promise<Forwarder> {
  const { post, close } = poster(work);
  const queue: Item[] = [];
  let running = 0;
  async function loop(): Promise<void> {
    running += 1;
    for (;;) {
      const item = queue.shift();
      if (!item) break;
      await post(item.body, String(item.index));
      work.onDelivered(item.index);
    }
    running -= 1;
  }
  return {
    async enqueue(items) {
      for (const item of items) queue.push(item);
      while (running < CONNECTIONS) void loop();
    },
    stop: close,
  };
}
