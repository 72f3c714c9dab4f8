/** Webhook receivers side by side: verify, parse, hand over. `plain` is Fastify's JSON route, which verifies nothing. */
import { once } from 'node:events';
import { type Contender, compare, countCpu, type Figures, peakMemoryMb, startPart } from './harness.ts';
import { load } from './receiver/load.ts';
import { requests, schemes } from './receiver/schemes.ts';

// The same warm-up for both: compiling depends on the number of requests, not on their size.
const warmUp = 4000;
const sizes = [
  { label: '1 KB', size: 1024, count: 30_000 },
  { label: '32 KB', size: 32 * 1024, count: 4000 },
];
const connections = 32;

async function run(contender: string, { size, count }: (typeof sizes)[number]): Promise<Figures> {
  const all = requests(contender, size, warmUp + count);
  const server = await startPart(new URL('receiver/server.ts', import.meta.url), [contender]);
  try {
    await load(server.ready as number, all.slice(0, warmUp), connections);
    const cpu = countCpu([server.pid]);
    const start = performance.now();
    await load(server.ready as number, all.slice(warmUp), connections);
    const seconds = (performance.now() - start) / 1000;
    const figures = { perSecond: count / seconds, cpuMicros: cpu() / count, memoryMb: peakMemoryMb(server.pid) };
    server.process.send('how many?');
    const [handled] = await once(server.process, 'message');
    if (handled !== all.length) throw new Error(`${contender} handled ${handled} of ${all.length}`);
    return figures;
  } finally {
    await server.stop();
  }
}

const contenders: Record<string, Contender> = {};
const ratios: Record<string, [string, string, string]> = {};
for (const each of sizes) {
  for (const name of Object.keys(schemes)) {
    contenders[`${name} ${each.label}`] = () => run(name, each);
    if (name === 'plain') continue;
    const [own, plain] = [`${name} ${each.label}`, `plain ${each.label}`];
    ratios[`${name} / plain, ${each.label}`] = [own, plain, 'perSecond'];
    ratios[`CPU: plain / ${name}, ${each.label}`] = [plain, own, 'cpuMicros'];
  }
}
await compare({ name: 'receiver', contenders, ratios });
