/**
 * Webhook receivers side by side: verify, parse, hand over. `plain` is Fastify's JSON route, which verifies nothing; in
 * batches it verifies, parses and hands over, and nothing else. `before` is the kit in the checkout of `--before DIR`.
 */
import { once } from 'node:events';
import { sizes } from './bodies.ts';
import { before, type Contender, compare, type Part, peakMemoryMb, startPart } from './harness.ts';
import { load } from './receiver/load.ts';
import { batchRequests, requests, schemes } from './receiver/schemes.ts';
import type { Told } from './receiver/server.ts';

/** Messages of a row: those that come first, and those of each round. */
interface Load {
  readonly warmUp: number;
  readonly count: number;
}

// Node compiles until some 15,000 requests have come, which costs whoever has more code more.
const singleLoad: Load = { warmUp: 20_000, count: 4_000 };
const batchLoad: Load = { warmUp: 40_000, count: 12_000 };
const connections = 32;
/** Half a megabyte is on each connection, or 500 messages. */
const batchConnections = 8;
const perBatch = (kb: number) => Math.floor(Math.min(500, 500 / kb));

/** A contender's server and the scheme of its requests. */
const serverOf = (contender: string): readonly [file: URL, name: string] =>
  contender === 'before'
    ? [new URL('receiver/server.ts', before), 'ours']
    : [new URL('receiver/server.ts', import.meta.url), contender];

/** Makes the requests of so many messages, of which `from` have come before. */
type Make = (count: number, from: number) => Buffer[];

const started: Part[] = [];

/**
 * A server that is started and warmed up at its first round, and stays: rounds are short, so that those of all contenders
 * follow each other faster than the speed of the machine drifts.
 */
function row(contender: string, kind: string, make: Make, { warmUp, count }: Load, wide: number): Contender {
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
      const [file, name] = serverOf(contender);
      server = await startPart(file, [name, kind]);
      started.push(server);
      await send(server, warmUp);
    }
    const earlier = await told(server);
    const seconds = await send(server, count);
    const { handled, cpuMicros } = await told(server);
    if (handled !== sent) throw new Error(`${contender} handled ${handled} of ${sent}`);
    const memoryMb = peakMemoryMb(server.pid);
    return { perSecond: count / seconds, cpuMicros: (cpuMicros - earlier.cpuMicros) / count, memoryMb };
  };
}

function single(name: string, kind: string, kb: number): Contender {
  const [, scheme] = serverOf(name);
  return row(name, kind, (...place) => requests(scheme, kb, ...place), singleLoad, connections);
}

function batches(name: string, kind: string, kb: number): Contender {
  const each = perBatch(kb);
  const whole = (count: number) => Math.ceil(count / each) * each;
  const load = { warmUp: whole(batchLoad.warmUp), count: whole(batchLoad.count) };
  return row(name, kind, (...place) => batchRequests(kb, each, ...place), load, batchConnections);
}

const contenders: Record<string, Contender> = {};
const ratios: Record<string, [string, string, string]> = {};

function ratio(label: string, own: string, to: string): void {
  ratios[label] = [own, to, 'perSecond'];
  ratios[`CPU: ${label}`] = [to, own, 'cpuMicros'];
}

const ownNames = ['plain', 'ours', ...(before ? ['before'] : [])];
for (const kb of sizes) {
  for (const kind of ['', 'async']) {
    const label = `${kb} KB ${kind}`.trim();
    // Peers differ no more behind an asynchronous handler.
    for (const name of kind === '' ? new Set([...ownNames, ...Object.keys(schemes)]) : ownNames) {
      contenders[`${name} ${label}`] = single(name, kind, kb);
      if (name !== 'plain') ratio(`${name} / plain, ${label}`, `${name} ${label}`, `plain ${label}`);
    }
    for (const name of ownNames) {
      contenders[`${name} ${label} in batches`] = batches(name === 'plain' ? 'plainBatches' : name, kind, kb);
    }
    ratio(`batches / single, ${label}`, `ours ${label} in batches`, `ours ${label}`);
    ratio(`ours / plain, ${label} in batches`, `ours ${label} in batches`, `plain ${label} in batches`);
    ratio(`plain batches / our single, ${label}`, `plain ${label} in batches`, `ours ${label}`);
    for (const where of ['', ' in batches']) {
      ratio(`ours / before, ${label}${where}`, `ours ${label}${where}`, `before ${label}${where}`);
    }
  }
}
try {
  await compare({ name: 'receiver', contenders, ratios });
} finally {
  for (const server of started) await server.stop();
}
