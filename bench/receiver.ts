/**
 * Webhook receivers side by side: verify, parse, hand over. `plain` is Fastify's JSON route, which verifies nothing; in
 * batches it verifies, parses and hands over, and nothing else.
 */
import { once } from 'node:events';
import { type Contender, compare, countCpu, type Figures, peakMemoryMb, startPart } from './harness.ts';
import { load } from './receiver/load.ts';
import { batchRequests, requests, schemes } from './receiver/schemes.ts';

/** Messages of a row. */
interface Load {
  readonly warmUp: number;
  readonly count: number;
}

// The same warm-up for both: compiling depends on the number of requests, not on their size.
const warmUp = 4000;
const sizes = [
  { label: '1 KB', size: 1024, count: 30_000 },
  { label: '32 KB', size: 32 * 1024, count: 4000 },
];
const kinds = ['', ' async'];
const connections = 32;
const perBatch = 500;
/**
 * As long as the row of single requests takes, warm-up too. With as many messages as that, a third of a second was
 * measured, in most of which Node still compiled. No more than the kit's store remembers.
 */
const batchLoad: Load = { warmUp: 16_000, count: 80_000 };
/** Half a megabyte is on each connection. */
const batchConnections = 8;

/** Sends all requests to a fresh server, those of the warm-up first, on so many connections. */
async function run(args: string[], requests: Buffer[], { warmUp, count }: Load, wide: number): Promise<Figures> {
  const server = await startPart(new URL('receiver/server.ts', import.meta.url), args);
  const warm = (requests.length * warmUp) / (warmUp + count);
  try {
    await load(server.ready as number, requests.slice(0, warm), wide);
    const cpu = countCpu([server.pid]);
    const start = performance.now();
    await load(server.ready as number, requests.slice(warm), wide);
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
  return run([contender, kind], requests(contender, size, warmUp + count), { warmUp, count }, connections);
}

function batches(contender: string, kind: string, size: number): Promise<Figures> {
  const all = batchRequests(size, batchLoad.warmUp + batchLoad.count, perBatch);
  return run([contender, kind], all, batchLoad, batchConnections);
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
      contenders[`${name} ${label}`] = () => single(name, kind.trim(), each);
      if (name !== 'plain') ratio(`${name} / plain, ${label}`, `${name} ${label}`, `plain ${label}`);
    }
  }
  const [small] = sizes as [(typeof sizes)[number]];
  const inBatches = (name: string) => `${name} ${small.label}${kind} in batches of ${perBatch}`;
  contenders[inBatches('plain')] = () => batches('plainBatches', kind.trim(), small.size);
  contenders[inBatches('ours')] = () => batches('ours', kind.trim(), small.size);
  ratio(`batches of ${perBatch} / single${kind}`, inBatches('ours'), `ours ${small.label}${kind}`);
  ratio(`ours / plain, in batches of ${perBatch}${kind}`, inBatches('ours'), inBatches('plain'));
  ratio(`plain batches of ${perBatch} / our single${kind}`, inBatches('plain'), `ours ${small.label}${kind}`);
}
await compare({ name: 'receiver', contenders, ratios });
