/** The price of a large backlog: claims from 10 thousand and from 1 million deliveries, and the memory it takes. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { compare, type Figures, startPart } from './harness.ts';

// As deploy/Dockerfile sets it.
process.env['NODE_OPTIONS'] = '--max-semi-space-size=16';
/** Claimed and settled in each run. */
const CLAIMS = 5_000;

async function run(backlog: number): Promise<Figures> {
  const folder = await mkdtemp(join(import.meta.dirname, '.backlog-'));
  const orders = JSON.stringify({ folder, backlog, claims: CLAIMS });
  const driver = await startPart(new URL('backlog/driver.ts', import.meta.url), [orders]);
  driver.process.send('done');
  await once(driver.process, 'exit');
  await rm(folder, { recursive: true, force: true });
  return driver.ready as Figures;
}

await compare({
  name: 'backlog',
  contenders: { '10 thousand': () => run(10_000), '1 million': () => run(1_000_000) },
  ratios: { 'claim, 1 million / 10 thousand': ['1 million', '10 thousand', 'claimMicros'] },
});
