/** Webhook receivers side by side: verify, parse, hand over. `plain` is Fastify's JSON route, which verifies nothing. */
import { once } from 'node:events';
import { type Contender, compare, countCpu, type Figures, peakMemoryMb, startPart } from './harness.ts';
import { load } from './receiver/load.ts';
import { batchRequests, requests, schemes } from './receiver/schemes.ts';

// The same warm-up for both: compiling depends on the number of requests, not on their size.
const warmUp = 4000;
const sizes = [
  { label: '1 KB', size: 1024, count: 30_000 },
  { label: '32 KB', size: 32 * 1024, count: 4000 },
];
const kinds = ['', ' async'];
const connections = 32;
const perBatch = 500;
/** Half a megabyte is on each connection. */
const batchConnections = 8;

/** Sends all requests to a fresh server, those of the warm-up first; `count` messages are measured. */
async function run(args: string[], warm: Buffer[], measured: Buffer[], count: number, wide: number): Promise<Figures> {
  const server = await startPart(new URL('receiver/server.ts', import.meta.url), args);
  try {
    await load(server.ready as number, warm, wide);
    const cpu = countCpu([server.pid]);
    const start = performance.now();
    await load(server.ready as number, measured, wide);
    const seconds = (performance.now() - start) / 1000;
    const figures = { perSecond: count / seconds, cpuMicros: cpu() / count, memoryMb: peakMemoryMb(server.pid) };
    server.process.send('how many?');
    const [handled] = await once(server.process, 'message');
    if (handled !== count + warmUp) throw new Error(`${args[0]} handled ${handled} of ${count + warmUp}`);
    return figures;
  } finally {
    await server.stop();
  }
}

function single(contender: string, kind: string, { size, count }: (typeof sizes)[number]): Promise<Figures> {
  const all = requests(contender, size, warmUp + count);
  return run([contender, kind.trim()], all.slice(0, warmUp), all.slice(warmUp), count, connections);
}

function batches(kind: string, { size, count }: (typeof sizes)[number]): Promise<Figures> {
  const all = batchRequests(size, warmUp + count, perBatch);
  const warm = warmUp / perBatch;
  return run(['ours', kind.trim()], all.slice(0, warm), all.slice(warm), count, batchConnections);
}

const contenders: Record<string, Contender> = {};
const ratios: Record<string, [string, string, string]> = {};

function ratio(label: string, own: string, to: string): void {
  ratios[label] = [own, to, 'perSecond'];
  ratios[`CPU: ${label}`] = [to, own, 'cpuMicros'];
}

for (const kind of kinds) {
  for (const each of sizes) {
    const label = `${each.label}${kind}`;
    for (const name of Object.keys(schemes)) {
      contenders[`${name} ${label}`] = () => single(name, kind, each);
      if (name !== 'plain') ratio(`${name} / plain, ${label}`, `${name} ${label}`, `plain ${label}`);
    }
  }
  const [small] = sizes as [(typeof sizes)[number]];
  const row = `ours ${small.label}${kind}`;
  contenders[`${row} in batches of ${perBatch}`] = () => batches(kind, small);
  ratio(`batches of ${perBatch} / single${kind}`, `${row} in batches of ${perBatch}`, row);
}
await compare({ name: 'receiver', contenders, ratios });
