import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { load } from '../collect/load.ts';
import { countCpu, type Figures, peakMemoryMb, startPart } from '../harness.ts';

const BATCH = 100;
const requests = { messages: BATCH, connections: 32, kb: 0.8 };
const WARM_UP = 300;
const BATCHES = 3_000;

/**
 * Takes batches of 100 with one destination.
 *
 * @param mode - without a log, with one, or with one whose files are written meanwhile
 */
export async function accepting(mode: 'off' | 'on' | 'sealed'): Promise<Figures> {
  // On the disk of the checkout: the system's folder for temporary files may be in memory.
  const folder = await mkdtemp(join(import.meta.dirname, '..', '.log-'));
  const server = await startPart(new URL('server.ts', import.meta.url), [
    mode,
    `sqlite:${join(folder, 'rollcall.db')}`,
    join(folder, 'events'),
  ]);
  try {
    const port = server.ready as number;
    await load(port, 0, WARM_UP, requests);
    const cpu = countCpu([server.pid]);
    const { seconds } = await load(port, WARM_UP, BATCHES, requests);
    const events = BATCHES * BATCH;
    return { perSecond: events / seconds, cpuMicros: cpu() / events, memoryMb: peakMemoryMb(server.pid) };
  } finally {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
