/** Live audiences: how long from an event to the change that it makes, at a steady rate, with a short and a long log behind. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { compare, countCpu, type Figures, startPart } from './harness.ts';

const DEFINITIONS = 100;
const RATE = Number(process.env['LIVE_RATE'] ?? 5_000);
const SECONDS = Number(process.env['LIVE_SECONDS'] ?? 60);
const PEOPLE = 100_000;
const CHANGING = 0.02;

interface Stats {
  readonly lag: number | null;
  readonly metrics: readonly { readonly name: string; readonly values: readonly Sample[] }[];
}
interface Sample {
  readonly value: number;
  readonly metricName?: string;
  readonly labels: Readonly<Record<string, string | number>>;
}

async function run(behind: number): Promise<Figures> {
  const folder = await mkdtemp(join(import.meta.dirname, '.live-'));
  const sink = await startPart(new URL('live/sink.ts', import.meta.url));
  const orders = JSON.stringify({ folder, sink: sink.ready, definitions: DEFINITIONS });
  const service = await startPart(new URL('live/rollcall.ts', import.meta.url), [orders]);
  const ask = async <T>(part: typeof service): Promise<T> => {
    const answer = once(part.process, 'message');
    part.process.send('ask');
    return (await answer)[0] as T;
  };
  if (behind > 0)
    await load({ url: service.ready, rate: 20_000, seconds: behind / 20_000, people: PEOPLE, changing: CHANGING });
  while (((await ask<Stats>(service)).lag ?? 1) > 0) await new Promise((resolve) => setTimeout(resolve, 500));
  const before = await ask<Stats>(service);
  const cpus = [countCpu([service.pid]), countCpu([sink.pid])] as const;
  const { ms, cpu, latest } = await load({
    url: service.ready,
    rate: RATE,
    seconds: SECONDS,
    people: PEOPLE,
    changing: CHANGING,
  });
  const atEnd = (await ask<Stats>(service)).lag ?? Number.NaN;
  while (((await ask<Stats>(service)).lag ?? 1) > 0) await new Promise((resolve) => setTimeout(resolve, 50));
  const after = await ask<Stats>(service);
  const [serviceCpu, receiverCpu] = [cpus[0](), cpus[1]()];
  const events = sumOf(after, 'rollcall_live_events_total') - sumOf(before, 'rollcall_live_events_total');
  const figures = {
    perSecond: (events * 1_000) / ms,
    changesPercent:
      (100 * (sumOf(after, 'rollcall_live_changes_total') - sumOf(before, 'rollcall_live_changes_total'))) / events,
    p50Ms: quantile(before, after, 0.5),
    p99Ms: quantile(before, after, 0.99),
    lagAtEndMs: atEnd,
    lateMs: latest,
    cpuMicros: serviceCpu / events,
    generatorMicros: cpu / events,
    receiverMicros: receiverCpu / events,
    cores: serviceCpu / 1_000 / ms,
    delivered: await ask<number>(sink),
  };
  service.process.send('stop');
  await once(service.process, 'exit');
  await sink.stop();
  await rm(folder, { recursive: true, force: true });
  return figures;
}

/** What the generator says in the end. `latest`: how late it was at worst, in milliseconds; `cpu`: its own, in microseconds. */
interface Loaded {
  readonly ms: number;
  readonly latest: number;
  readonly cpu: number;
}

async function load(orders: object): Promise<Loaded> {
  const child = fork(new URL('live/load.ts', import.meta.url), [JSON.stringify(orders)], {
    stdio: ['ignore', 2, 2, 'ipc'],
  });
  await once(child, 'message');
  const [done] = await once(child, 'message');
  await once(child, 'exit');
  return done as Loaded;
}

const sumOf = ({ metrics }: Stats, name: string) =>
  metrics.find((metric) => metric.name === name)?.values.reduce((sum, { value }) => sum + value, 0) ?? 0;

/** Upper bound of the bucket that it falls into, in milliseconds: of the steps, each by its oldest event. */
function quantile(before: Stats, after: Stats, part: number): number {
  const buckets = (stats: Stats) =>
    new Map(
      stats.metrics
        .find(({ name }) => name === 'rollcall_live_lag_seconds')
        ?.values.filter(({ metricName }) => metricName?.endsWith('_bucket'))
        .map(({ labels, value }) => [Number(labels['le'] === '+Inf' ? Infinity : labels['le']), value]),
    );
  const [first, last] = [buckets(before), buckets(after)];
  const counts = [...last]
    .map(([bound, value]) => [bound, value - (first.get(bound) ?? 0)] as const)
    .sort((a, b) => a[0] - b[0]);
  const total = counts.at(-1)?.[1] ?? 0;
  return (counts.find(([, count]) => count >= part * total)?.[0] ?? Number.NaN) * 1_000;
}

const BEHIND = Number(process.env['LIVE_BEHIND'] ?? 1_000_000);
await compare({
  name: 'live',
  contenders: { 'nothing behind': () => run(0), [`${BEHIND} behind`]: () => run(BEHIND) },
  ratios: { 'CPU per event, long log / none': [`${BEHIND} behind`, 'nothing behind', 'cpuMicros'] },
});
