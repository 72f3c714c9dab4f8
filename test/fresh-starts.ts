/**
 * Starts processes on engines that are fresh, again and again, and counts the runs that fail; then many audiences are due at
 * once: `npm run test:fresh -- [STARTS] [AUDIENCES] [CROWD]`, 50 starts of 12 audiences and four of 300 on each engine unless
 * given. Postgres has 20 connections. The heap must not grow from one start to the next: V8 compiles nothing meanwhile, since
 * its code lies there too, and grew by 0.01 MB a start for as long as anybody watched.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createSync } from '../jobs/index.ts';
import { createAccept } from '../src/accept.ts';
import type { EngineConfig } from '../src/config/config.ts';
import { systemClock } from '../src/kernel/clock.ts';
import { openStore } from '../src/store/open.ts';
import { startFastPostgres } from './helpers/postgres.ts';
import { audience, destination } from './jobs/helpers/rig.ts';

const [starts = 50, audiences = 12, crowd = 300] = process.argv.slice(2).map(Number);
const server = await startFastPostgres(['max_connections = 20']);
const folder = mkdtempSync(join(tmpdir(), 'rollcall-fresh-'));

/** One start of `processes` processes on one engine; resolves to the runs of its audiences. */
async function start(engine: EngineConfig, processes: number, many: number) {
  const store = await openStore({ url: 'sqlite::memory:', maxQueued: 1_000_000 }, systemClock);
  const config = {
    folder,
    engines: { lake: engine },
    audiences: Array.from({ length: many }, (_, n) =>
      audience(`a${n}`, `select 'u${n}' as user_id`, { schedule: '0 0 1 1 *' }),
    ),
    traits: [],
    destinations: [destination('crm')],
  };
  const waiting = new Set(config.audiences.map(({ key }) => key));
  const all = Promise.withResolvers<void>();
  const accept = createAccept(store, () => config.destinations);
  const onProgress = ({ key, phase, run }: { key: string; phase: string; run: string }) => {
    if (phase === 'done' && run !== '') waiting.delete(key);
    if (waiting.size === 0) all.resolve();
  };
  const log = { debug() {}, info() {}, warn() {}, error() {} };
  const syncs = Array.from({ length: processes }, () =>
    createSync({ store, accept, config: () => config, clock: systemClock, log, onProgress }),
  );
  await Promise.all(syncs.map((sync) => sync.start()));
  await all.promise;
  await Promise.all(syncs.map((sync) => sync.stop()));
  const runs = await store.runs({ limit: 10_000 });
  await store.close();
  return runs;
}

const engines: Readonly<Record<string, (n: number) => Promise<EngineConfig>>> = {
  duckdb: async (n) => {
    const path = join(folder, `${n}.duckdb`);
    return { type: 'duckdb', path, memoryLimit: '512MB', threads: 1, concurrency: 2 };
  },
  postgres: async () => ({ type: 'postgres', url: await server.database(), concurrency: 4 }),
};
let failures = 0;

/** Starts after which the process has compiled and cached what it needs. */
const WARM = 2;
/** MB by which the heap may differ from then on. */
const NOISE = 0.5;

/** The outcome of some starts. Memory is in MB: the heap in use after each start, and the whole process at the end. */
async function series(name: string, fresh: (n: number) => Promise<EngineConfig>, times: number, many: number) {
  const codes = new Map<string, number>();
  const heap: number[] = [];
  let runs = 0;
  const began = systemClock.monotonic();
  for (let n = 0; n < times; n += 1) {
    const made = await start(await fresh(n), name === 'postgres' ? 2 : 1, many);
    runs += made.length;
    for (const { state, code, reason } of made) {
      if (state !== 'done') codes.set(`${code} ${reason}`, (codes.get(`${code} ${reason}`) ?? 0) + 1);
    }
    rmSync(join(folder, `${n}.duckdb`), { force: true });
    heap.push(await usedHeap());
  }
  const growth = (heap.at(-1) ?? 0) - (heap[WARM - 1] ?? 0);
  if (codes.size > 0 || runs < times * many || growth > NOISE) failures += 1;
  const seconds = Math.round((systemClock.monotonic() - began) / 1000);
  console.log(
    JSON.stringify({
      engine: name,
      starts: times,
      audiences: many,
      runs,
      failed: [...codes],
      seconds,
      heap,
      rss: rss(),
    }),
  );
}

const rss = () => Math.round(process.memoryUsage().rss / 2 ** 20);

/** Twice, because what is closed by finalizers is collected by the next one. */
async function usedHeap(): Promise<number> {
  for (let times = 0; times < 2; times += 1) {
    await systemClock.sleep(100);
    globalThis.gc?.();
  }
  return Number((process.memoryUsage().heapUsed / 2 ** 20).toFixed(2));
}

for (const [name, fresh] of Object.entries(engines)) {
  await series(name, fresh, starts, audiences);
  await series(name, fresh, 4, crowd);
}
await server.stop();
rmSync(folder, { recursive: true });
process.exit(failures > 0 ? 1 : 0);
