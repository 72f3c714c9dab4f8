/**
 * The store and the worker as a plain queue, under the faults and pressures of a harness that others wrote, with pg-boss for comparison:
 * https://github.com/hardbyte/postgresql-job-queue-benchmarking. It takes a checkout of it, and fetches nothing:
 *
 *     git clone https://github.com/hardbyte/postgresql-job-queue-benchmarking ../queues && cd ../queues
 *     git checkout 93677ca && python3 -m venv .venv && .venv/bin/pip install . && npm ci --prefix pgboss-bench
 *     npm run bench:queue -- --harness ../queues --rounds 1 --only "rollcall postgres_restart,pgboss postgres_restart"
 *
 * `--share 0.25` shortens each phase to a quarter. `--systems rollcall,awa` names others; `run.py` can't run those in containers.
 * The harness writes about a run to `results/` of the checkout. It starts, stops and removes its Postgres with
 * `docker compose`: a `docker` in the PATH does so with the one of our tests.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { freePort } from '../test/helpers/free-port.ts';
import { type PostgresServer, startPostgres } from '../test/helpers/postgres.ts';
import { type Contender, compare, type Figures } from './harness.ts';

const { values } = parseArgs({
  strict: false,
  options: {
    harness: { type: 'string' },
    share: { type: 'string', default: '1' },
    systems: { type: 'string', default: 'rollcall,pgboss' },
  },
});
const harness = resolve(String(values['harness'] ?? ''));
const share = Number(values['share']);
const python = join(harness, '.venv', 'bin', 'python');
if (values['harness'] === undefined || !existsSync(python)) {
  console.error(
    '--harness DIR: a checkout of postgresql-job-queue-benchmarking with a .venv; bench/queue.ts says how to get it.',
  );
  process.exit(2);
}

/** Phases as `label=type`, with their seconds, and the load: those of `scripts/run_full_sweep.sh` there. */
interface Scenario {
  readonly phases: readonly (readonly [phase: string, seconds: number])[];
  readonly rate: number;
  readonly replicas?: number;
  readonly workers?: number;
  readonly depth?: number;
}

const begin = [
  ['warmup=warmup', 30],
  ['before=clean', 60],
] as const;
const after = (seconds: number) => ['after=clean', seconds] as const;
const SCENARIOS: Readonly<Record<string, Scenario>> = {
  postgres_restart: { phases: [...begin, ['stress=postgres-restart', 60], after(60)], rate: 600 },
  pg_backend_kill: { phases: [...begin, ['stress=pg-backend-kill(rate=2)', 60], after(60)], rate: 600 },
  pool_exhaustion: { phases: [...begin, ['stress=pool-exhaustion(idle_conns=300)', 60], after(60)], rate: 600 },
  crash_recovery: {
    phases: [...begin, ['stress=kill-worker(instance=0)', 60], ['start=start-worker(instance=0)', 60], after(60)],
    rate: 300,
    replicas: 2,
  },
  repeated_kills: {
    phases: [...begin, ['stress=repeated-kill(instance=0,period=20s)', 120], after(60)],
    rate: 300,
    replicas: 2,
  },
  idle_in_tx: { phases: [...begin, ['stress=idle-in-tx', 240], after(180)], rate: 800 },
  sustained_high_load: { phases: [...begin, ['stress=high-load', 240], after(120)], rate: 800 },
  active_readers: { phases: [...begin, ['stress=active-readers', 240], after(120)], rate: 800 },
  event_burst: { phases: [...begin, ['stress=high-load', 300], after(240)], rate: 1_200, workers: 64 },
  throughput: { phases: [['warmup=warmup', 30], after(180)], rate: 50_000, workers: 64, depth: 4_000 },
};

const POSTGRES_CONF = readFileSync(join(harness, 'postgres.conf'), 'utf8')
  .split('\n')
  .filter((line) => /^\w/.test(line) && !line.startsWith('listen_addresses'));
const SHIM = '#!/bin/sh\nexec curl --silent --fail --unix-socket "$QUEUE_SOCKET" --data "$*" http://docker/\n';

/** The calls of `docker` that the harness makes, on a Postgres of ours. */
function composeOn(port: number): (call: string) => Promise<void> {
  let server: PostgresServer | null = null;
  return async (call) => {
    switch (call) {
      case 'compose up -d --wait':
        server ??= await startPostgres([...POSTGRES_CONF, `port = ${port}`]);
        break;
      case 'compose stop postgres':
        return server?.halt();
      case 'compose start postgres':
        return server?.resume();
      case 'compose down -v':
        await server?.stop();
        server = null;
        break;
      // A server is ready once it was started or resumed.
      case 'compose exec -T postgres pg_isready -U bench':
      case '--version':
      case 'compose version':
        break;
      default:
        throw new Error(`docker ${call}: not known here`);
    }
  };
}

const phase = z.object({
  median_throughput_per_s: z.number().nullish(),
  median_claim_p99_ms: z.number().nullish(),
  jobs_lost: z.number().nullish(),
  chaos_recovery_time_s: z.number().nullish(),
});
const summarySchema = z.object({
  systems: z.record(z.string(), z.object({ phases: z.record(z.string(), phase) })),
});

/** The newest run's; its time is in the name of its folder. */
async function figuresOf(system: string): Promise<Figures> {
  const runs = (await readdir(join(harness, 'results'))).filter((name) => name.startsWith('custom-')).sort();
  const file = await readFile(join(harness, 'results', runs.at(-1) ?? '', 'summary.json'), 'utf8');
  const phases = new Map(Object.entries(summarySchema.parse(JSON.parse(file)).systems[system]?.phases ?? {}));
  const [before, stress, end] = ['before', 'stress', 'after'].map((name) => phases.get(name));
  return {
    before: before?.median_throughput_per_s ?? Number.NaN,
    stress: stress?.median_throughput_per_s ?? Number.NaN,
    after: end?.median_throughput_per_s ?? Number.NaN,
    claimP99Ms: end?.median_claim_p99_ms ?? Number.NaN,
    lost: end?.jobs_lost ?? Number.NaN,
    recoverySeconds: end?.chaos_recovery_time_s ?? Number.NaN,
  };
}

async function run(system: string, { phases, rate, replicas = 1, workers = 32, depth }: Scenario): Promise<Figures> {
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-queue-'));
  const socket = join(folder, 'socket');
  const port = await freePort();
  const compose = composeOn(port);
  const docker = createServer((request, response) => {
    text(request)
      .then(compose)
      .catch((error) => {
        console.error(error);
        response.statusCode = 500;
      })
      .finally(() => response.end());
  }).listen(socket);
  await writeFile(join(folder, 'docker'), SHIM, { mode: 0o755 });
  const load = ['--producer-rate', rate, '--replicas', replicas, '--worker-count', workers, '--sample-every', 2];
  const mode = depth === undefined ? [] : ['--producer-mode', 'depth-target', '--target-depth', depth];
  const spans = phases.flatMap(([name, seconds]) => ['--phase', `${name}:${Math.ceil(seconds * share)}s`]);
  const program = join(import.meta.dirname, 'queue', 'run.py');
  const child = spawn(python, [program, 'run', '--systems', system, ...[...load, ...mode].map(String), ...spans], {
    cwd: harness,
    stdio: ['ignore', 2, 2],
    env: {
      ...process.env,
      PATH: `${folder}${delimiter}${process.env['PATH']}`,
      // Else it writes its pace to pg-boss, which doesn't read it, and hangs once the pipe is full.
      PRODUCER_PACING: 'adapter',
      QUEUE_SOCKET: socket,
      QUEUE_NODE: process.execPath,
      QUEUE_PORT: String(port),
    },
  });
  const [exit] = await once(child, 'exit');
  docker.close();
  await compose('compose down -v');
  await rm(folder, { recursive: true });
  return { ...(exit === 0 ? await figuresOf(system) : {}), exit };
}

const contenders: Record<string, Contender> = {};
for (const [name, scenario] of Object.entries(SCENARIOS)) {
  for (const system of String(values['systems']).split(','))
    contenders[`${system} ${name}`] = () => run(system, scenario);
}

await compare({ name: 'queue', contenders });
