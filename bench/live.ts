/**
 * Live audiences: how long from an event to the change that it makes, at a steady rate, with nothing and with long logs behind,
 * on SQLite and on Postgres; and the highest rate that is kept up with. The generator and the receiver run on the same cores.
 *
 * `LIVE_RATE`, `LIVE_SECONDS`: of the steady rate. `LIVE_BEHIND=1000000,50000000`: events behind on SQLite,
 * `LIVE_BEHIND_POSTGRES` on Postgres. `--only "SQLite,SQLite with 1000000 behind"` takes some.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { migratePostgres } from '../src/store/postgres/migrate.ts';
import { startPostgres } from '../test/helpers/postgres.ts';
import { compare, countCpu, type Figures, only, type Part, startPart } from './harness.ts';
import { copyOf, makeTable } from './live/table.ts';
import { makeHistory } from './log/history.ts';

const DEFINITIONS = 100;
const RATE = Number(process.env['LIVE_RATE'] ?? 5_000);
const SECONDS = Number(process.env['LIVE_SECONDS'] ?? 60);
const PEOPLE = 100_000;
const CHANGING = 0.02;
/** Rates that are tried one after the other, for so many seconds each, until one is too much. */
const RATES = [2_500, 5_000, 7_500, 10_000, 12_500, 15_000, 17_500, 20_000, 25_000];
const STEP_SECONDS = Number(process.env['LIVE_STEP_SECONDS'] ?? 15);
/** Behind by more, in milliseconds, is too much. */
const TOO_LATE = 1_000;

const numbers = (text: string) => text.split(',').map(Number);
const BEHIND = {
  SQLite: numbers(process.env['LIVE_BEHIND'] ?? '1000000'),
  Postgres: numbers(process.env['LIVE_BEHIND_POSTGRES'] ?? '1000000'),
};
type Store = keyof typeof BEHIND;

const isAsked = (name: string) => only === null || only.includes(name);

interface Stats {
  readonly lag: number | null;
  /** Of the service so far: microseconds, bytes at most. */
  readonly cpu: number;
  readonly maxMemory: number;
  readonly metrics: readonly { readonly name: string; readonly values: readonly Sample[] }[];
}
interface Sample {
  readonly value: number;
  readonly metricName?: string;
  readonly labels: Readonly<Record<string, string | number>>;
}

/** A store and a log for a service to start with: made once for each length, copied for each run. */
interface Place {
  readonly url: string;
  /** Of the log's files. */
  readonly events: string;
  readonly folder: string;
  /** Processes whose work counts as the service's. */
  readonly pids: readonly number[];
  end(): Promise<void>;
}

const root = mkdtempSync(join(import.meta.dirname, '.live-'));
const made = new Map<string, Promise<string>>();
const madeOnce = (name: string, make: () => Promise<string>) => {
  const known = made.get(name) ?? make();
  made.set(name, known);
  return known;
};
const isPostgresAsked = [...BEHIND.Postgres.map((count) => behind('Postgres', count)), 'Postgres', 'Postgres highest'];
const server = isPostgresAsked.some(isAsked)
  ? await startPostgres(['shared_buffers = 512MB', 'max_wal_size = 4GB', 'autovacuum_naptime = 5s'])
  : null;

async function placeOf(store: Store, count: number): Promise<Place> {
  const folder = await mkdtemp(join(root, 'run-'));
  const end = () => rm(folder, { recursive: true, force: true });
  if (store === 'SQLite') {
    const url = `sqlite:${join(folder, 'rollcall.db')}`;
    if (count === 0) return { url, folder, events: join(folder, 'events'), pids: [], end };
    const history = await madeOnce(`${count}`, async () => {
      const { folder } = await makeHistory(join(root, `history-${count}`), count, false);
      return join(folder, '..');
    });
    cpSync(join(history, 'rollcall.db'), join(folder, 'rollcall.db'));
    return { url, folder, events: join(history, 'events'), pids: [], end };
  }
  if (!server) throw new Error('no server');
  const template = await madeOnce(`table ${count}`, async () => {
    const url = await server.database();
    await migratePostgres(url);
    if (count > 0) await makeTable(url, count);
    return url;
  });
  const url = await copyOf(template);
  return { url, folder, events: join(folder, 'events'), pids: [server.pid as number], end };
}

interface Running {
  readonly service: Part;
  readonly sink: Part;
  readonly place: Place;
  /** Seconds until it was up to date. */
  readonly seconds: number;
  ask(): Promise<Stats>;
  caughtUp(): Promise<void>;
  stop(): Promise<number>;
}

async function start(store: Store, count: number): Promise<Running> {
  const place = await placeOf(store, count);
  const sink = await startPart(new URL('live/sink.ts', import.meta.url));
  const { url, folder, events } = place;
  const orders = JSON.stringify({ url, folder, events, sink: sink.ready, definitions: DEFINITIONS });
  const startedAt = performance.now();
  const service = await startPart(new URL('live/rollcall.ts', import.meta.url), [orders]);
  const seconds = (performance.now() - startedAt) / 1_000;
  const answer = async <T>(part: Part): Promise<T> => {
    const said = once(part.process, 'message');
    part.process.send('ask');
    return (await said)[0] as T;
  };
  const ask = () => answer<Stats>(service);
  return {
    ...{ service, sink, place, seconds, ask },
    async caughtUp() {
      while (((await ask()).lag ?? 1) > 0) await new Promise((resolve) => setTimeout(resolve, 50));
    },
    async stop() {
      const delivered = await answer<number>(sink);
      service.process.send('stop');
      await once(service.process, 'exit');
      await sink.stop();
      await place.end();
      return delivered;
    },
  };
}

/** As many users as a history of so many events has. */
const usersOf = (count: number) => Math.max(20_000, Math.ceil(count / 50));

function orders({ service }: Running, rate: number, seconds: number, count: number): object {
  return { url: service.ready, rate, seconds, people: PEOPLE, changing: CHANGING, users: usersOf(count) };
}

async function steady(store: Store, count: number): Promise<Figures> {
  const running = await start(store, count);
  const { service, sink, place } = running;
  const started = await running.ask();
  // By then its code is compiled.
  await load(orders(running, RATE, Math.min(5, SECONDS), count));
  await running.caughtUp();
  const before = await running.ask();
  const cpus = [countCpu([service.pid]), countCpu([sink.pid]), countCpu(place.pids)] as const;
  const { ms, cpu, latest } = await load(orders(running, RATE, SECONDS, count));
  const atEnd = (await running.ask()).lag ?? Number.NaN;
  await running.caughtUp();
  const after = await running.ask();
  const [serviceCpu, receiverCpu, databaseCpu] = cpus.map((counted) => counted()) as [number, number, number];
  const since = (name: string) => sumOf(after, name) - sumOf(before, name);
  const events = since('rollcall_live_events_total');
  const figures = {
    perSecond: (events * 1_000) / ms,
    changesPercent: (100 * since('rollcall_live_changes_total')) / events,
    p50Ms: quantile(before, after, 0.5),
    p99Ms: quantile(before, after, 0.99),
    lagAtEndMs: atEnd,
    lateMs: latest,
    cpuMicros: (serviceCpu + databaseCpu) / events,
    databaseMicros: databaseCpu / events,
    generatorMicros: cpu / events,
    receiverMicros: receiverCpu / events,
    cores: (serviceCpu + databaseCpu) / 1_000 / ms,
    startSeconds: running.seconds,
    startCpuSeconds: started.cpu / 1e6,
    startMemoryMb: started.maxMemory / 1e6,
  };
  return { ...figures, delivered: await running.stop() };
}

/** The highest of the rates after which nothing is behind, with the generator in time. */
async function highest(store: Store): Promise<Figures> {
  const running = await start(store, 0);
  let best = { perSecond: 0, cpuMicros: Number.NaN, p99Ms: Number.NaN };
  for (const rate of RATES) {
    const before = await running.ask();
    const counted = countCpu([running.service.pid, ...running.place.pids]);
    const { ms, sent } = await load(orders(running, rate, STEP_SECONDS, 0));
    const { lag } = await running.ask();
    await running.caughtUp();
    const after = await running.ask();
    const p99Ms = quantile(before, after, 0.99);
    if ((lag ?? Number.NaN) > TOO_LATE || p99Ms > TOO_LATE || ms > STEP_SECONDS * 1_000 * 1.05) break;
    best = { perSecond: (sent * 1_000) / ms, cpuMicros: counted() / sent, p99Ms };
  }
  await running.stop();
  return best;
}

/** The generator's last words. `latest`: how late it was at worst, in milliseconds; `cpu`: its own, in microseconds. */
interface Loaded {
  readonly sent: number;
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

function behind(store: Store, count: number): string {
  return `${store} with ${count} behind`;
}

const contenders: Record<string, () => Promise<Figures>> = {};
const ratios: Record<string, [string, string, string]> = {};
for (const store of ['SQLite', 'Postgres'] as const) {
  contenders[store] = () => steady(store, 0);
  for (const count of BEHIND[store]) {
    const name = behind(store, count);
    contenders[name] = () => steady(store, count);
    ratios[`CPU per event, ${name} / nothing`] = [name, store, 'cpuMicros'];
  }
  contenders[`${store} highest`] = () => highest(store);
}
try {
  await compare({ name: 'live', contenders, ratios });
} finally {
  await server?.stop();
  rmSync(root, { recursive: true, force: true });
}
