import { CONNECTIONS, type Forwarder, type Item, poster, type Work } from './work.ts';

/** The limit: a queue in memory and a loop that signs and posts. */
export async function bare({ url, onDelivered }: Work): Promise<Forwarder> {
  const { post, close } = poster(url);
  const queue: Item[] = [];
  let next = 0;
  let running = 0;
  async function loop(): Promise<void> {
    running += 1;
    for (;;) {
      const item = queue[next];
      if (!item) break;
      next += 1;
      await post(item.body, String(item.index));
      onDelivered(item.index);
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
