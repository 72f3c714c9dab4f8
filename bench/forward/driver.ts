/** Runs one contender in a process of its own: `driver.ts NAME {url,folder,count,extra}`. */
import { once } from 'node:events';
import { bare } from './bare.ts';
import { rollcall } from './rollcall.ts';
import { type Forwarder, item, type Work } from './work.ts';

/** Items put in at a time, and items on their way at most: the backlog stays the same for all. */
const BATCH = 100;
const OUTSTANDING = 4_000;

const { url, folder, count, warmUp, extra } = JSON.parse(process.argv[3] ?? '{}') as {
  url: string;
  folder: string;
  count: number;
  warmUp: number;
  extra: string;
};
const enqueuedAt = new Float64Array(count);
const latencies = new Float64Array(count);
let delivered = 0;
let onProgress = () => {};
const work: Work = {
  url,
  folder,
  onDelivered(index) {
    latencies[index] = performance.now() - (enqueuedAt[index] ?? 0);
    delivered += 1;
    onProgress();
  },
};

async function start(name: string): Promise<Forwarder> {
  if (name === 'bare') return bare(work);
  if (name === 'rollcall') return rollcall(work);
  if (name === 'graphile') return (await import('./graphile.ts')).graphile(work, extra);
  return (await import('./bullmq.ts')).bullmq(work, extra);
}

function progress(isReached: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    onProgress = () => {
      if (isReached()) resolve();
    };
    onProgress();
  });
}

const forwarder = await start(process.argv[2] ?? '');

/** Puts in and sees delivered the items from `from` to `until`. */
async function forward(from: number, until: number): Promise<void> {
  let writing: Promise<void>[] = [];
  for (let next = from; next < until; ) {
    const batch = Array.from({ length: Math.min(BATCH, until - next) }, (_, index) => item(next + index));
    const now = performance.now();
    for (const { index } of batch) enqueuedAt[index] = now;
    next += batch.length;
    writing.push(forwarder.enqueue(batch));
    if (writing.length >= 8) {
      await Promise.all(writing);
      writing = [];
    }
    await progress(() => next - delivered <= OUTSTANDING);
  }
  await Promise.all(writing);
  await progress(() => delivered >= until);
}

await forward(0, warmUp);
process.send?.('ready');
await once(process, 'message');
const startedAt = performance.now();
await forward(warmUp, count);
const seconds = (performance.now() - startedAt) / 1_000;
const sorted = latencies.slice(warmUp).sort();
const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
process.send?.({ seconds, p50: at(0.5), p99: at(0.99) });
await once(process, 'message');
await forwarder.stop();
process.disconnect();
