/**
 * The first sync of an audience, of 100,000 members or `--members N`, to a receiver app that verifies, parses and handles each identify call by itself, with one
 * message in a request or up to 500: `rollcall` from the query on, with its durable store; `two columns` with two columns that go along; `from the store` with everything
 * accepted before; `bare` an undici loop over a queue in memory that signs and posts the same bodies one by one. All run with
 * Node's options of `deploy/`, without which V8 lets some 100 MB more of young garbage lie about.
 */
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Work } from './backfill/work.ts';
import { compare, countCpu, DEPLOYED, type Figures, type Part, peakMemoryMb, startPart } from './harness.ts';

const { values } = parseArgs({ strict: false, options: { members: { type: 'string' } } });
const calls = Number(values['members'] ?? 100_000);

interface Done {
  readonly calls: number;
  readonly seconds: number;
}

async function run(sending: 'rollcall' | 'stored' | 'bare', isBatched = false, hasColumns = false): Promise<Figures> {
  // On the disk of the checkout: the system's folder for temporary files may be in memory.
  const folder = await mkdtemp(join(import.meta.dirname, '.backfill-'));
  const parts: Part[] = [];
  const start = async (name: string, args: string[] = []) => {
    const part = await startPart(new URL(`backfill/${name}.ts`, import.meta.url), args, DEPLOYED);
    parts.push(part);
    return part;
  };
  try {
    const receiver = await start('receiver');
    const work: Work = { port: Number(receiver.ready), folder, calls, isBatched, hasColumns };
    const sender = await start(sending, [JSON.stringify(work)]);
    const cpu = countCpu([sender.pid]);
    const receiverCpu = countCpu([receiver.pid]);
    const done = await new Promise<Done>((resolve) => {
      sender.process.once('message', (message) => resolve(message as Done));
      sender.process.send('go');
    });
    if (done.calls !== calls) throw new Error(`${done.calls} of ${calls} calls were delivered`);
    return {
      perSecond: calls / done.seconds,
      cpuMicros: cpu() / calls,
      receiverMicros: receiverCpu() / calls,
      memoryMb: peakMemoryMb(sender.pid),
      receiverMb: peakMemoryMb(receiver.pid),
      diskMb: await sizeMb(folder),
    };
  } finally {
    for (const part of parts) await part.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

/** The size of the store and the engine on disk; files that were larger before have kept their size. */
async function sizeMb(folder: string): Promise<number> {
  let bytes = 0;
  for (const name of await readdir(folder)) bytes += (await stat(join(folder, name))).size;
  return bytes / 2 ** 20;
}

await compare({
  name: 'backfill',
  contenders: {
    bare: () => run('bare'),
    rollcall: () => run('rollcall'),
    'rollcall in batches': () => run('rollcall', true),
    'two columns': () => run('rollcall', false, true),
    'two columns in batches': () => run('rollcall', true, true),
    'from the store': () => run('stored'),
    'from the store in batches': () => run('stored', true),
  },
  ratios: {
    'rollcall / bare': ['rollcall', 'bare', 'perSecond'],
    'rollcall in batches / bare': ['rollcall in batches', 'bare', 'perSecond'],
    'two columns / rollcall, by CPU': ['two columns', 'rollcall', 'cpuMicros'],
    'two columns in batches / rollcall in batches, by CPU': [
      'two columns in batches',
      'rollcall in batches',
      'cpuMicros',
    ],
    'from the store in batches / bare': ['from the store in batches', 'bare', 'perSecond'],
  },
});
