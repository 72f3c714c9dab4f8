/**
 * What the deployed service takes: its memory with ten destinations and with a thousand, its wakeups and CPU while nothing happens,
 * and the seconds until it is ready. Runs `dist/`, with the options and the environment of `deploy/Dockerfile`: build it first.
 *
 * `ten destinations`: a thousand messages a second, each to one of them, or to all (`for each`). `a thousand destinations`:
 * with 500 audiences, which are all synced for the first time; then a message to all of them each second. `idle`: one
 * destination. `restarted`: live audiences over a million people. Ends with 1 if a limit is broken.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Pool } from 'undici';
import { migratePostgres } from '../src/store/postgres/migrate.ts';
import { freePort } from '../test/helpers/free-port.ts';
import { startPostgres } from '../test/helpers/postgres.ts';
import { order, usualSize } from './bodies.ts';
import { compare, countCpu, DEPLOYED, type Figures, IN_CONTAINER, insist, peakMemoryMb, startPart } from './harness.ts';

const LIMITS: Record<string, Figures> = {
  'ten destinations': { memoryMb: 200 },
  'ten destinations for each': { memoryMb: 200 },
  'a thousand destinations': { memoryMb: 400, readySeconds: 15 },
  idle: { wakeups: 15, corePercent: 0.2 },
  'idle on Postgres': { wakeups: 15, corePercent: 0.2 },
  'idle with live audiences': { corePercent: 1 },
  restarted: { readySeconds: 10 },
};

const PROGRAM = resolve(import.meta.dirname, '../dist/src/cli/bin.js');
const TOKEN = 'a-token-of-the-bench';
const headers = { authorization: `Basic ${btoa('key:')}`, 'content-type': 'application/json' };
/** Seconds of load, which takes longer on a machine that is too slow for it; seconds until an idle service has done what it does once; seconds for which it is watched. */
const LOAD = 30;
const SETTLING = 15;
const WATCHED = 30;
const PEOPLE = 1_000_000;
const LIVE = 50;
const IN_FLIGHT = 8;

interface Service {
  readonly pid: number;
  readonly readySeconds: number;
  /** Posts a batch of these messages; resolves once they are on disk. */
  send(messages: readonly object[]): Promise<void>;
  audiences(): Promise<readonly Audience[]>;
  stop(): Promise<void>;
}

interface Audience {
  readonly lastRun: object | null;
  readonly live: { readonly lag: number | null; readonly hold: string | null } | null;
}

async function start(folder: string, config: object): Promise<Service> {
  if (!existsSync(PROGRAM)) throw new Error(`${PROGRAM} is missing: npm run build`);
  const port = await freePort();
  const common = { listen: { port }, network: { allow: ['127.0.0.0/8'] }, admin: { token: TOKEN } };
  // JSON is YAML.
  await writeFile(join(folder, 'rollcall.yaml'), JSON.stringify({ ...common, ...config }));
  const startedAt = performance.now();
  const service = spawn(process.execPath, [...DEPLOYED, IN_CONTAINER, PROGRAM, 'start', '-c', 'rollcall.yaml'], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 2],
    env: { ...process.env, NODE_ENV: 'production', MALLOC_ARENA_MAX: '2' },
  });
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections: IN_FLIGHT });
  await ready(service, pool);
  const readySeconds = (performance.now() - startedAt) / 1_000;
  return {
    pid: service.pid as number,
    readySeconds,
    async send(batch) {
      const answer = await pool.request({
        path: '/v1/batch',
        method: 'POST',
        headers,
        body: JSON.stringify({ batch }),
      });
      await answer.body.dump();
      if (answer.statusCode !== 200) throw new Error(`status ${answer.statusCode}`);
    },
    async audiences() {
      const asking = {
        path: '/api/v1/audiences',
        method: 'GET',
        headers: { authorization: `Bearer ${TOKEN}` },
      } as const;
      const { body } = await pool.request(asking);
      return ((await body.json()) as { data: Audience[] }).data;
    },
    async stop() {
      await pool.close();
      service.kill();
      await once(service, 'exit');
    },
  };
}

async function ready(service: ChildProcess, pool: Pool): Promise<void> {
  for (;;) {
    if (service.exitCode !== null) throw new Error(`The service ended with ${service.exitCode}.`);
    const answer = await pool.request({ path: '/readyz', method: 'GET' }).catch(() => null);
    await answer?.body.dump();
    if (answer?.statusCode === 200) return;
    await pause(20);
  }
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await pause(200);
}

const isComputed = ({ live }: Audience) =>
  live !== null && live.hold === null && (live.lag ?? Number.POSITIVE_INFINITY) < 1_000;

/** Destinations of the source `shop`. The first also gets changes of audiences. */
const destinations = (sink: unknown, count: number, settings: (n: number) => object = () => ({})) =>
  Array.from({ length: count }, (_, n) => ({
    name: `d${n}`,
    sources: n === 0 ? ['shop', 'people'] : ['shop'],
    webhookUrl: `http://127.0.0.1:${sink}/${n}`,
    ...settings(n),
  }));
const sources = [
  { id: 'shop', writeKey: 'key' },
  { id: 'people', writeKey: 'people' },
];
const live = (count: number) => ({
  eventLog: { path: 'events', keep: '400d' },
  audiences: Array.from({ length: count }, (_, n) => ({
    ...{ name: `Live ${n}`, source: 'people', live: true },
    when: { performed: `Event ${n}`, atLeast: n === 0 ? 1 : 2, within: '30 days' },
  })),
});

/** Runs a service in a folder of its own, and an endpoint. */
async function withService(
  config: (sink: unknown) => object,
  measure: (service: Service, again: () => Promise<Service>) => Promise<Figures>,
): Promise<Figures> {
  await using ends = new AsyncDisposableStack();
  // On the disk of the checkout: the system's folder for temporary files may be in memory.
  const folder = await mkdtemp(join(import.meta.dirname, '.footprint-'));
  ends.defer(() => rm(folder, { recursive: true, force: true }));
  const sink = await startPart(new URL('forward/sink.ts', import.meta.url));
  ends.defer(() => sink.stop());
  const settings = { sources, store: 'sqlite:rollcall.db', ...config(sink.ready) };
  let service = await start(folder, settings);
  ends.defer(() => service.stop());
  return await measure(service, async () => {
    await service.stop();
    service = await start(folder, settings);
    return service;
  });
}

let sent = 0;

function purchase(): object {
  sent += 1;
  const ids = { userId: `user-${sent % 5_000}`, messageId: `m-${process.pid}-${sent}` };
  return { ...order(usualSize, { type: 'track', ...ids }), event: `Event ${sent % 10}` };
}

/** One event of somebody new. */
function visit(): object {
  sent += 1;
  return {
    type: 'track',
    event: `Event ${sent % LIVE}`,
    userId: `user-${sent}`,
    messageId: `m-${process.pid}-${sent}`,
  };
}

interface Load {
  /** Messages in all, and in each batch. */
  readonly count: number;
  readonly size: number;
  readonly perSecond?: number;
  readonly message: () => object;
}

/** Sends batches, some at a time. */
async function load({ send }: Service, { count, size, perSecond, message }: Load): Promise<void> {
  const startedAt = performance.now();
  const running = new Set<Promise<void>>();
  for (let from = 0; from < count; from += size) {
    if (perSecond) await pause(Math.max(0, startedAt + (from * 1_000) / perSecond - performance.now()));
    const sending: Promise<void> = send(Array.from({ length: size }, message)).finally(() => running.delete(sending));
    running.add(sending);
    if (running.size >= IN_FLIGHT) await Promise.race(running);
  }
  await Promise.all(running);
}

async function underLoad(service: Service, perSecond: number): Promise<Figures> {
  const memoryBeforeMb = peakMemoryMb(service.pid);
  const cpu = countCpu([service.pid]);
  const startedAt = performance.now();
  const size = Math.ceil(perSecond / 50);
  await load(service, { count: perSecond * LOAD, size, perSecond, message: purchase });
  const ms = performance.now() - startedAt;
  const { pid, readySeconds } = service;
  const memoryMb = peakMemoryMb(pid);
  return {
    perSecond: (perSecond * LOAD * 1_000) / ms,
    readySeconds,
    memoryBeforeMb,
    memoryMb,
    corePercent: cpu() / ms / 10,
  };
}

/** Wakeups and milliseconds on a core of all threads of a process so far. */
function activity(pid: number): { wakeups: number; ms: number } {
  const sum = { wakeups: 0, ms: 0 };
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    const read = (file: string) => readFileSync(`/proc/${pid}/task/${task}/${file}`, 'utf8');
    sum.wakeups += Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(read('status'))?.[1]);
    sum.ms += Number(read('schedstat').split(' ')[0]) / 1e6;
  }
  return sum;
}

async function idle({ pid, readySeconds }: Service): Promise<Figures> {
  await pause(SETTLING * 1_000);
  const before = activity(pid);
  await pause(WATCHED * 1_000);
  const { wakeups, ms } = activity(pid);
  return {
    readySeconds,
    memoryMb: peakMemoryMb(pid),
    wakeups: (wakeups - before.wakeups) / WATCHED,
    corePercent: (ms - before.ms) / WATCHED / 10,
  };
}

const contenders: Record<string, () => Promise<Figures>> = {
  'ten destinations': () =>
    withService(
      (sink) => ({ destinations: destinations(sink, 10, (n) => ({ events: [`Event ${n}`] })) }),
      (service) => underLoad(service, 1_000),
    ),
  'ten destinations for each': () =>
    withService(
      (sink) => ({ destinations: destinations(sink, 10) }),
      (service) => underLoad(service, 1_000),
    ),
  'a thousand destinations': () =>
    withService(
      (sink) => ({
        destinations: destinations(sink, 1_000),
        audiences: Array.from({ length: 500 }, (_, n) => ({
          ...{ name: `Audience ${n}`, source: 'people', schedule: '0 3 * * *' },
          sql: `select 'u' || (i + ${n}) as user_id from range(100) as numbers(i)`,
        })),
      }),
      async (service) => {
        await until(async () => (await service.audiences()).every(({ lastRun }) => lastRun !== null));
        return underLoad(service, 1);
      },
    ),
  idle: () => withService((sink) => ({ destinations: destinations(sink, 1) }), idle),
  'idle on Postgres': async () => {
    const server = await startPostgres();
    try {
      const store = await server.database();
      await migratePostgres(store);
      return await withService((sink) => ({ store, destinations: destinations(sink, 1) }), idle);
    } finally {
      await server.stop();
    }
  },
  'idle with live audiences': () =>
    withService((sink) => ({ destinations: destinations(sink, 1), ...live(100) }), idle),
  restarted: () =>
    withService(
      (sink) => ({
        destinations: destinations(sink, 1).map((each) => ({ ...each, sources: ['people'] })),
        ...live(LIVE),
      }),
      async (first, again) => {
        await load(first, { count: PEOPLE, size: 1_000, message: visit });
        await until(async () => (await first.audiences()).every(isComputed));
        const service = await again();
        const startedAt = performance.now();
        await until(async () => (await service.audiences()).every(isComputed));
        const readySeconds = service.readySeconds + (performance.now() - startedAt) / 1_000;
        return { readySeconds, memoryMb: peakMemoryMb(service.pid) };
      },
    ),
};

insist(await compare({ name: 'footprint', contenders }), (contender) => LIMITS[contender]);
