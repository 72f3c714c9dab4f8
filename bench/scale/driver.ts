import { once } from 'node:events';
import { boss, graphile } from './peers.ts';
import { rollcall } from './rollcall.ts';
import { body, type Work } from './work.ts';

/** Messages put in at a time, and such batches on their way at once. */
const BATCH = 200;
const WRITERS = 4;

const contenders = { rollcall, graphile, boss };
const work = JSON.parse(process.argv[3] ?? '{}') as Work;
const driver = await contenders[process.argv[2] as keyof typeof contenders](work);
process.send?.('ready');
await once(process, 'message');

let next = 0;
async function write(): Promise<void> {
  while (next < work.count) {
    const from = next;
    next = Math.min(work.count, next + BATCH);
    await driver.enqueue(Array.from({ length: next - from }, (_, index) => body(from + index)));
  }
}
await Promise.all(Array.from({ length: WRITERS }, write));
await once(process, 'message');
await driver.stop();
process.send?.('stopped');
process.disconnect();
