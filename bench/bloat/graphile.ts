import { startGraphile } from '../forward/graphile.ts';
import { BATCH, type Message, messageMaker } from '../scale/work.ts';
import { type Queue, WAITING } from './queue.ts';

/** Jobs that do nothing, put in by the process that works them off. */
export async function graphile(url: string): Promise<Queue> {
  const message = messageMaker(0.8);
  let entered = 0;
  let left = 0;
  let goal = 0;
  let reached = () => {};
  let failed: (error: unknown) => void = () => {};
  const enqueue = () => {
    const jobs = Array.from({ length: BATCH }, (_, index) => message(entered + index));
    entered += BATCH;
    worker.enqueue(jobs).catch((error) => failed(error));
  };
  const worker = await startGraphile<Message>(url, async () => {
    left += 1;
    if (left + WAITING > entered) enqueue();
    if (left === goal) reached();
  });
  return {
    deliver(count) {
      goal = left + count;
      return new Promise((resolve, reject) => {
        reached = resolve;
        failed = reject;
        while (entered < left + WAITING) enqueue();
      });
    },
    close: () => worker.stop(),
  };
}
