/**
 * What bad endpoints cost the healthy ones: 10, 100 and 1000 destinations at 60 % of what was measured as their capacity
 * (open loop), alone and with one endpoint more that hangs and one that always answers 500.
 */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type Contender, compare, startPart } from './harness.ts';
import type { Orders, Result } from './isolation/driver.ts';

const { values } = parseArgs({
  strict: false,
  options: { seconds: { type: 'string' }, sizes: { type: 'string' }, share: { type: 'string' } },
});
const seconds = Number(values['seconds'] ?? 8);
const share = Number(values['share'] ?? 0.6);
const sizes = String(values['sizes'] ?? '10,100,1000')
  .split(',')
  .map(Number);

async function run(orders: Omit<Orders, 'port' | 'folder'>): Promise<Result> {
  const folder = await mkdtemp(join(import.meta.dirname, '.isolation-'));
  const sink = await startPart(new URL('isolation/sink.ts', import.meta.url));
  const all = { ...orders, folder, port: sink.ready as number };
  const driver = await startPart(new URL('isolation/driver.ts', import.meta.url), [JSON.stringify(all)]);
  driver.process.send('done');
  await once(driver.process, 'exit');
  await sink.stop();
  await rm(folder, { recursive: true, force: true });
  return driver.ready as Result;
}

const contenders: Record<string, Contender> = {};
const ratios: Record<string, [string, string, string]> = {};
for (const healthy of sizes) {
  const { perSecond } = await run({ healthy, isBad: false, rate: 0, seconds: Math.min(4, seconds) });
  const rate = Math.round(perSecond * share);
  console.error(`${healthy} destinations: capacity ${Math.round(perSecond)}/s, pace ${rate}/s`);
  const figures = async (isBad: boolean) => ({ pace: rate, ...(await run({ healthy, isBad, rate, seconds })) });
  contenders[`${healthy} alone`] = () => figures(false);
  contenders[`${healthy} with bad ones`] = () => figures(true);
  ratios[`p95 of ${healthy}, with / alone`] = [`${healthy} with bad ones`, `${healthy} alone`, 'p95'];
  ratios[`throughput of ${healthy}, with / alone`] = [`${healthy} with bad ones`, `${healthy} alone`, 'perSecond'];
}
await compare({ name: 'isolation', contenders, ratios });
