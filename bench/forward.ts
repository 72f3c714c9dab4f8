/**
 * Enqueue and deliver, side by side: `bare` is an undici loop over a queue in memory, the others keep every message in a
 * store until it is delivered. The same signed bodies, 64 connections, 4,000 messages on their way at most.
 * `over TLS`, the sink serves HTTPS with a certificate of an authority that everybody is given.
 * `rollcall at 20 %` takes in a fifth of what `rollcall` delivered in a second: its times are those from accept to answer of a
 * service that is not busy. `service` is the whole of it, with history, metrics and API, and `watched` has somebody look at its
 * overview, from a process of their own, whose CPU is not counted. `before` is `rollcall` in the checkout of `--before DIR`.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Authority } from '../test/deliver/helpers/certificates.ts';
import { freePort } from '../test/helpers/free-port.ts';
import { startPostgres } from '../test/helpers/postgres.ts';
import { sizes, usualSize } from './bodies.ts';
import {
  before,
  type Contender,
  compare,
  countCpu,
  DEPLOYED,
  type Figures,
  peakMemoryMb,
  startPart,
} from './harness.ts';

const { values } = parseArgs({ strict: false, options: { count: { type: 'string' } } });
const all = Number(values['count'] ?? 120_000);

/** A contender's store or database, which runs beside its process. */
interface Service {
  readonly extra: string;
  readonly pid: number | null;
  stop(): Promise<void>;
}

const none = async (): Promise<Service> => ({ extra: '', pid: null, stop: async () => {} });

async function postgres(): Promise<Service> {
  const server = await startPostgres();
  return { extra: await server.database(), pid: server.pid, stop: () => server.stop() };
}

async function redis(): Promise<Service> {
  const port = await freePort();
  const folder = await mkdtemp(join(import.meta.dirname, '.redis-'));
  const options = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--appendonly', 'yes', '--save', ''];
  const server = spawn('redis-server', options, { stdio: 'pipe' });
  await new Promise<void>((resolve) => {
    server.stdout.on('data', (chunk) => {
      if (String(chunk).includes('Ready to accept connections')) resolve();
    });
  });
  return {
    extra: String(port),
    pid: server.pid ?? null,
    async stop() {
      server.kill('SIGKILL');
      await once(server, 'exit');
      await rm(folder, { recursive: true });
    },
  };
}

const authority = new Authority();
const certificate = authority.issue('IP:127.0.0.1');
authority.remove();

const PAGE = new URL('forward/page.ts', import.meta.url);
/** Seconds for which a contender at less than its full rate runs, its warm-up included. */
const PACED_SECONDS = 12;

interface Conditions {
  /** Size of the bodies. */
  readonly kb: number;
  /** True if the sink serves HTTPS. */
  readonly isSecure?: boolean;
  /** Messages to take in each second; without one, as many as are delivered. */
  readonly rate?: number;
  /** Whether somebody has its overview open. */
  readonly isWatched?: boolean;
  /** The `bench/` that runs the contender. */
  readonly from?: URL | undefined;
}

async function run(
  name: string,
  startService: () => Promise<Service>,
  { kb, isSecure = false, rate, isWatched = false, from }: Conditions,
): Promise<Figures> {
  // On the disk of the checkout: the system's folder for temporary files may be in memory.
  const folder = await mkdtemp(join(import.meta.dirname, '.forward-'));
  const sink = await startPart(
    new URL('forward/sink.ts', import.meta.url),
    isSecure ? [JSON.stringify(certificate)] : [],
  );
  const service = await startService();
  const count = rate === undefined ? all : Math.round(rate * PACED_SECONDS);
  const warmUp = Math.round(count / 3);
  const orders = {
    url: `${isSecure ? 'https' : 'http'}://127.0.0.1:${sink.ready}/hook`,
    ca: isSecure ? [authority.cert] : [],
    folder,
    kb,
    count,
    warmUp,
    rate: rate ?? null,
    extra: service.extra,
  };
  const file = new URL('forward/driver.ts', from ?? import.meta.url);
  const driver = await startPart(file, [name, JSON.stringify(orders)], DEPLOYED);
  const page = isWatched ? await startPart(PAGE, [String(driver.ready)]) : null;
  try {
    const cpu = countCpu(service.pid === null ? [driver.pid] : [driver.pid, service.pid]);
    driver.process.send('go');
    const [result] = (await once(driver.process, 'message')) as [{ seconds: number; p50: number; p99: number }];
    const cpuMicros = cpu() / (count - warmUp);
    const memoryMb = peakMemoryMb(driver.pid);
    await page?.stop();
    driver.process.send('stop');
    await once(driver.process, 'exit');
    return { perSecond: (count - warmUp) / result.seconds, cpuMicros, p50Ms: result.p50, p99Ms: result.p99, memoryMb };
  } finally {
    await page?.stop();
    await service.stop();
    await sink.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Deliveries a second of the last full run with bodies of the usual size; before there is one, what the machines of RESULTS.md are good for. */
let capacity = 20_000;
const usual = `${usualSize} KB`;

const contenders: Record<string, Contender> = {};
const ratios: Record<string, [string, string, string]> = {};
const hasRedis = spawnSync('redis-server', ['--version']).status === 0;

/** Rollcall with all that it is compared with, under the same conditions. */
function add(conditions: Conditions): void {
  const where = `${conditions.kb} KB${conditions.isSecure ? ' over TLS' : ''}`;
  contenders[`bare ${where}`] = () => run('bare', none, conditions);
  contenders[`rollcall ${where}`] = async () => {
    const figures = await run('rollcall', none, conditions);
    if (where === usual) capacity = figures['perSecond'] ?? capacity;
    return figures;
  };
  if (before) contenders[`before ${where}`] = () => run('rollcall', none, { ...conditions, from: before });
  contenders[`graphile ${where}`] = () => run('graphile', postgres, conditions);
  if (hasRedis) contenders[`bullmq ${where}`] = () => run('bullmq', redis, conditions);
  for (const name of ['bare', 'before', 'graphile', 'bullmq']) {
    ratios[`rollcall / ${name}, ${where}`] = [`rollcall ${where}`, `${name} ${where}`, 'perSecond'];
    ratios[`CPU, rollcall / ${name}, ${where}`] = [`rollcall ${where}`, `${name} ${where}`, 'cpuMicros'];
  }
}

for (const isSecure of [false, true]) for (const kb of sizes) add({ kb, isSecure });

contenders[`rollcall ${usual} at 20 %`] = () => run('rollcall', none, { kb: usualSize, rate: 0.2 * capacity });
contenders[`service ${usual}`] = () => run('service', none, { kb: usualSize });
contenders[`watched ${usual}`] = () => run('service', none, { kb: usualSize, isWatched: true });
ratios[`CPU, watched / service, ${usual}`] = [`watched ${usual}`, `service ${usual}`, 'cpuMicros'];

await compare({ name: 'forward', contenders, ratios });
