/**
 * The first sync of every customer in the CDNOW purchases, from the query to the receiver app that verifies, parses and
 * handles each identify call: `rollcall` with its durable store, `bare` an undici loop that signs and posts the same bodies.
 */
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { compare, countCpu, type Figures, peakMemoryMb, startPart } from './harness.ts';

const purchases = join(import.meta.dirname, '../../shared/data/CDNOW_master.txt');
if (!existsSync(purchases)) {
  console.error(`This benchmark needs the real purchases, CDNOW_master.txt, in shared/data beside the checkout.`);
  process.exit(1);
}

interface Done {
  readonly calls: number;
  readonly seconds: number;
}

async function run(contender: 'rollcall' | 'bare'): Promise<Figures> {
  // On the disk of the checkout: the system's folder for temporary files may be in memory.
  const folder = await mkdtemp(join(import.meta.dirname, '.backfill-'));
  const receiver = await startPart(new URL('backfill/receiver.ts', import.meta.url));
  const sender = await startPart(new URL(`backfill/${contender}.ts`, import.meta.url), [
    String(receiver.ready),
    folder,
    purchases,
  ]);
  try {
    const cpu = countCpu([sender.pid]);
    const { calls, seconds } = await new Promise<Done>((resolve) => {
      sender.process.once('message', (message) => resolve(message as Done));
      sender.process.send('go');
    });
    return { calls, perSecond: calls / seconds, cpuMicros: cpu() / calls, memoryMb: peakMemoryMb(sender.pid) };
  } finally {
    await sender.stop();
    await receiver.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

await compare({
  name: 'backfill',
  contenders: { bare: () => run('bare'), rollcall: () => run('rollcall') },
  ratios: { 'rollcall / bare': ['rollcall', 'bare', 'perSecond'] },
});
