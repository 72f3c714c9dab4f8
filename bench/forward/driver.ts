/** Runs one contender in a process of its own: `driver.ts NAME {url,kb,…}`. */
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { bare } from './bare.ts';
import { rollcall } from './rollcall.ts';
import { type Forwarder, type Item, itemMaker, type Work } from './work.ts';

/** Items put in at a time, and items on their way at most: the backlog stays the same for all. */
const BATCH = 100;
const OUTSTANDING = 4_000;
/** Milliseconds between two batches where the rate is given. */
const TICK = 5;

const { kb, count, warmUp, rate, extra, ...place } = JSON.parse(process.argv[3] ?? '{}') as {
  url: string;
  ca: readonly string[];
  folder: string;
  kb: number;
  count: number;
  warmUp: number;
  rate: number | null;
  extra: string;
};
const item = itemMaker(kb);
const enqueuedAt = new Float64Array(count);
const latencies = new Float64Array(count);
let delivered = 0;
let onProgress = () => {};
const work: Work = {
  ...place,
  onDelivered(index) {
    latencies[index] = performance.now() - (enqueuedAt[index] ?? 0);
    delivered += 1;
    onProgress();
  },
};

async function start(name: string): Promise<Forwarder> {
  if (name === 'bare') return bare(work);
  if (name === 'rollcall') return rollcall(work);
  if (name === 'service') return (await import('./service.ts')).service(work);
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

/** A batch of them from `next` on, each with the time at which it is put in. */
function batchFrom(next: number, size: number): Item[] {
  const now = performance.now();
  return Array.from({ length: size }, (_, index) => {
    enqueuedAt[next + index] = now;
    return item(next + index);
  });
}

/** Puts in the items from `from` to `until` at the given rate, whatever has been delivered; resolves once all are. */
async function pace(from: number, until: number, perSecond: number): Promise<void> {
  const startedAt = performance.now();
  const writing: Promise<void>[] = [];
  for (let next = from; next < until; ) {
    await pause(TICK);
    const due = Math.min(until, from + Math.floor(((performance.now() - startedAt) / 1_000) * perSecond));
    if (due > next) writing.push(forwarder.enqueue(batchFrom(next, due - next)));
    next = due;
  }
  await Promise.all(writing);
  await progress(() => delivered >= until);
}

/** Puts in and sees delivered the items from `from` to `until`. */
async function forward(from: number, until: number): Promise<void> {
  let writing: Promise<void>[] = [];
  for (let next = from; next < until; ) {
    const batch = batchFrom(next, Math.min(BATCH, until - next));
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

const run = rate === null ? forward : (from: number, until: number) => pace(from, until, rate);
await run(0, warmUp);
process.send?.(forwarder.address ?? null);
await once(process, 'message');
const startedAt = performance.now();
await run(warmUp, count);
const seconds = (performance.now() - startedAt) / 1_000;
const sorted = latencies.slice(warmUp).sort();
const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
process.send?.({ seconds, p50: at(0.5), p99: at(0.99) });
await once(process, 'message');
await forwarder.stop();
process.disconnect();
