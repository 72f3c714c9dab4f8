/**
 * Taking batches in, side by side: `bare` is a Fastify route that parses the same JSON and answers, `checked` the
 * collection API without a store, `rollcall` all of it: validation, dedupe, and each message on disk before the answer.
 * `stored` is the bare route with the same store behind it: what is on disk before the answer costs so much by itself.
 * `single`: the same with one message in each request, over twice as many connections. All run as in `deploy/`.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { load } from './collect/load.ts';
import { compare, countCpu, DEPLOYED, type Figures, peakMemoryMb, startPart } from './harness.ts';

// Warm once V8 has compiled what runs often: after 10,000 calls its compiler still took a sixth of the CPU.
const batches = { messages: 100, connections: 32, warmUp: 1_000, count: 3_000 };
const calls = { messages: 1, connections: 64, warmUp: 40_000, count: 60_000 };

async function run(contender: string, { messages, connections, warmUp, count } = batches): Promise<Figures> {
  // On the disk of the checkout: the system's folder for temporary files may be in memory.
  const folder = await mkdtemp(join(import.meta.dirname, '.collect-'));
  const args = [contender, join(folder, 'rollcall.db')];
  const server = await startPart(new URL('collect/server.ts', import.meta.url), args, DEPLOYED);
  try {
    await load(server.ready as number, 0, warmUp, messages, connections);
    const cpu = countCpu([server.pid]);
    const { seconds, latencies } = await load(server.ready as number, warmUp, count, messages, connections);
    const events = count * messages;
    return {
      perSecond: events / seconds,
      p99Ms: latencies.toSorted((a, b) => a - b)[Math.floor(latencies.length * 0.99)]!,
      cpuMicros: cpu() / events,
      memoryMb: peakMemoryMb(server.pid),
    };
  } finally {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

await compare({
  name: 'collect',
  contenders: {
    ...{ bare: () => run('bare'), checked: () => run('checked'), rollcall: () => run('rollcall') },
    ...{ 'bare single': () => run('bare', calls), 'rollcall single': () => run('rollcall', calls) },
    ...{ stored: () => run('stored'), 'stored single': () => run('stored', calls) },
  },
  ratios: {
    'rollcall / bare': ['rollcall', 'bare', 'perSecond'],
    'checked / bare': ['checked', 'bare', 'perSecond'],
    'rollcall single / bare single': ['rollcall single', 'bare single', 'perSecond'],
    'stored / bare': ['stored', 'bare', 'perSecond'],
    'stored single / bare single': ['stored single', 'bare single', 'perSecond'],
  },
});
