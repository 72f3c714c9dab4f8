/**
 * The price that healthy endpoints pay for bad ones: 10, 100 and 1000 destinations at 60 % of what was measured as their capacity
 * (open loop), alone and with one endpoint more that hangs and one that always answers 500. And what bad messages cost the
 * others of one endpoint (closed loop): some of a hundred are always answered 500, or answers are 503 by chance.
 */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type Contender, compare, startPart } from './harness.ts';
import type { Orders, Result } from './isolation/driver.ts';

const { values } = parseArgs({
  strict: false,
  options: {
    seconds: { type: 'string' },
    sizes: { type: 'string' },
    share: { type: 'string' },
    latencies: { type: 'string' },
  },
});
const seconds = Number(values['seconds'] ?? 8);
const share = Number(values['share'] ?? 0.6);
const numbers = (text: unknown) => (text === '' ? [] : String(text).split(',').map(Number));
const sizes = numbers(values['sizes'] ?? '10,100,1000');
/** Milliseconds of an endpoint with bad messages. */
const latencies = numbers(values['latencies'] ?? '200,5');

type Asked = Partial<Orders> & Pick<Orders, 'healthy' | 'rate' | 'seconds'>;

async function run(orders: Asked): Promise<Result> {
  const folder = await mkdtemp(join(import.meta.dirname, '.isolation-'));
  const sink = await startPart(new URL('isolation/sink.ts', import.meta.url));
  const healthy = { isBad: false, latency: 0, failing: 0, overloaded: 0 };
  const all: Orders = { ...healthy, ...orders, folder, port: sink.ready as number };
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
  // Measured once, by whichever row comes first.
  let capacity: Promise<number> | null = null;
  const measure = async () => {
    const { perSecond } = await run({ healthy, rate: 0, seconds: Math.min(4, seconds) });
    console.error(
      `${healthy} destinations: capacity ${Math.round(perSecond)}/s, pace ${Math.round(perSecond * share)}/s`,
    );
    return Math.round(perSecond * share);
  };
  const figures = async (isBad: boolean) => {
    capacity ??= measure();
    const rate = await capacity;
    return { pace: rate, ...(await run({ healthy, isBad, rate, seconds })) };
  };
  contenders[`${healthy} alone`] = () => figures(false);
  contenders[`${healthy} with bad ones`] = () => figures(true);
  ratios[`p95 of ${healthy}, with / alone`] = [`${healthy} with bad ones`, `${healthy} alone`, 'p95'];
  ratios[`throughput of ${healthy}, with / alone`] = [`${healthy} with bad ones`, `${healthy} alone`, 'perSecond'];
}
/** Bad messages: percent always answered 500, percent of 503 among all answers. */
const bad = {
  'no failures': {},
  '2 % always 500': { failing: 2 },
  '5 % always 500': { failing: 5 },
  '10 % always 500': { failing: 10 },
  '5 % of answers 503': { overloaded: 5 },
};
for (const latency of latencies) {
  for (const [label, faults] of Object.entries(bad)) {
    const row = `${label} at ${latency} ms`;
    contenders[row] = async () => ({ pace: 0, ...(await run({ healthy: 1, latency, ...faults, rate: 0, seconds })) });
    if (label !== 'no failures')
      ratios[`others with ${row} / without`] = [row, `no failures at ${latency} ms`, 'perSecond'];
  }
}
await compare({ name: 'isolation', contenders, ratios });
