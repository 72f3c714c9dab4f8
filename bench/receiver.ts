/**
 * Webhook receivers side by side: verify, parse, hand over. `plain` is Fastify's JSON route, which verifies nothing; in
 * batches it verifies, parses and hands over, and nothing else.
 */
import { once } from 'node:events';
import { type Contender, compare, type Part, peakMemoryMb, startPart } from './harness.ts';
import { load } from './receiver/load.ts';
import { batchRequests, requests, schemes } from './receiver/schemes.ts';
import type { Told } from './receiver/server.ts';

/** Messages of a row: those that come first, and those of each round. */
interface Load {
  readonly warmUp: number;
  readonly count: number;
}

// Node compiles until some 15,000 requests have come, which costs whoever has more code more.
const sizes = [
  { label: '1 KB', size: 1024, warmUp: 20_000, count: 4000 },
  { label: '32 KB', size: 32 * 1024, warmUp: 4000, count: 1000 },
];
const kinds = ['', ' async'];
const connections = 32;
const perBatch = 500;
const batchLoad: Load = { warmUp: 40_000, count: 12_000 };
/** Half a megabyte is on each connection. */
const batchConnections = 8;

/** Makes the requests of so many messages, of which `from` have come before. */
type Make = (count: number, from: number) => Buffer[];

const started: Part[] = [];

/**
 * A server that is started and warmed up at its first round, and stays: rounds are short, so that those of all contenders
 * follow each other faster than the speed of the machine drifts.
 */
function row(args: string[], make: Make, { warmUp, count }: Load, wide: number): Contender {
  let server: Part | undefined;
  let sent = 0;

  async function send(part: Part, messages: number): Promise<number> {
    const all = make(messages, sent);
    const start = performance.now();
    await load(part.ready as number, all, wide);
    sent += messages;
    return (performance.now() - start) / 1000;
  }

  async function told({ process }: Part): Promise<Told> {
    process.send('how much?');
    const [answer] = await once(process, 'message');
    return answer;
  }

  return async () => {
    if (server === undefined) {
      server = await startPart(new URL('receiver/server.ts', import.meta.url), args);
      started.push(server);
      await send(server, warmUp);
    }
    const before = await told(server);
    const seconds = await send(server, count);
    const { handled, cpuMicros } = await told(server);
    if (handled !== sent) throw new Error(`${args[0]} handled ${handled} of ${sent}`);
    const memoryMb = peakMemoryMb(server.pid);
    return { perSecond: count / seconds, cpuMicros: (cpuMicros - before.cpuMicros) / count, memoryMb };
  };
}

function single(contender: string, kind: string, { size, ...messages }: Load & { size: number }): Contender {
  return row([contender, kind], (...place) => requests(contender, size, ...place), messages, connections);
}

function batches(contender: string, kind: string, size: number): Contender {
  return row([contender, kind], (...place) => batchRequests(size, perBatch, ...place), batchLoad, batchConnections);
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
      contenders[`${name} ${label}`] = single(name, kind.trim(), each);
      if (name !== 'plain') ratio(`${name} / plain, ${label}`, `${name} ${label}`, `plain ${label}`);
    }
  }
  const [small] = sizes as [(typeof sizes)[number]];
  const inBatches = (name: string) => `${name} ${small.label}${kind} in batches of ${perBatch}`;
  contenders[inBatches('plain')] = batches('plainBatches', kind.trim(), small.size);
  contenders[inBatches('ours')] = batches('ours', kind.trim(), small.size);
  ratio(`batches of ${perBatch} / single${kind}`, inBatches('ours'), `ours ${small.label}${kind}`);
  ratio(`ours / plain, in batches of ${perBatch}${kind}`, inBatches('ours'), inBatches('plain'));
  ratio(`plain batches of ${perBatch} / our single${kind}`, inBatches('plain'), `ours ${small.label}${kind}`);
}
try {
  await compare({ name: 'receiver', contenders, ratios });
} finally {
  for (const server of started) await server.stop();
}
