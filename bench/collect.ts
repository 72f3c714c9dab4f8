/**
 * Taking batches in, side by side: `bare` is a Fastify route that parses the same JSON and answers, `checked` the
 * collection API without a store, `rollcall` all of it: validation, dedupe, and each message on disk before the answer.
 * `stored` is the bare route with the same store behind it: what is on disk before the answer costs so much by itself.
 * `single`: the same with one message in each request, over twice as many connections. All run as in `deploy/`.
 * `before` is `rollcall` in the checkout of `--before DIR`.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { sizes } from './bodies.ts';
import { load, type Requests } from './collect/load.ts';
import {
  before,
  type Contender,
  compare,
  countCpu,
  DEPLOYED,
  type Figures,
  peakMemoryMb,
  startPart,
} from './harness.ts';

// Warm once V8 has compiled what runs often: after 10,000 calls its compiler still took a sixth of the CPU.
const batches = { messages: 100, connections: 32, warmUp: 600, count: 1_500 };
const calls = { messages: 1, connections: 64, warmUp: 40_000, count: 40_000 };

/** @param from - the `bench/` that runs the contender */
async function run(
  contender: string,
  { warmUp, count, ...requests }: Requests & { warmUp: number; count: number },
  from: URL | string = import.meta.url,
): Promise<Figures> {
  // On the disk of the checkout: the system's folder for temporary files may be in memory.
  const folder = await mkdtemp(join(import.meta.dirname, '.collect-'));
  const args = [contender, join(folder, 'rollcall.db')];
  const server = await startPart(new URL('collect/server.ts', from), args, DEPLOYED);
  try {
    await load(server.ready as number, 0, warmUp, requests);
    const cpu = countCpu([server.pid]);
    const { seconds, latencies } = await load(server.ready as number, warmUp, count, requests);
    const events = count * requests.messages;
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

const contenders: Record<string, Contender> = {};
const ratios: Record<string, [string, string, string]> = {};
for (const kb of sizes) {
  for (const [kind, amount] of [['', batches] as const, [' single', calls] as const]) {
    const where = `${kb} KB${kind}`;
    const names = ['bare', 'stored', 'rollcall', ...(kind === '' ? ['checked'] : [])];
    for (const name of names) contenders[`${name} ${where}`] = () => run(name, { ...amount, kb });
    if (before) contenders[`before ${where}`] = () => run('rollcall', { ...amount, kb }, before);
    for (const name of ['stored', 'rollcall', 'checked', 'before']) {
      ratios[`${name} / bare, ${where}`] = [`${name} ${where}`, `bare ${where}`, 'perSecond'];
    }
    ratios[`rollcall / before, ${where}`] = [`rollcall ${where}`, `before ${where}`, 'perSecond'];
    ratios[`CPU, rollcall / before, ${where}`] = [`rollcall ${where}`, `before ${where}`, 'cpuMicros'];
  }
}
await compare({ name: 'collect', contenders, ratios });
