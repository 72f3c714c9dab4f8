/**
 * 1, 2 and 4 processes on one Postgres, beside graphile-worker and pg-boss: take messages in and deliver them, signed, to a
 * sink on loopback, with 4,000 on their way at any time, and at a steady rate that leaves the machine idle for a part of the
 * time: where all cores are taken, the same work takes more CPU time, as caches are shared. `beside other work` tells that apart
 * from what more processes cost: as many busy processes as there are cores take all that is left, whoever is measured. Each
 * process is warm before it counts, and has the young generation of a deployed one, the peers' too. The database's processes count
 * with those of the contender; the sink's do not. `before` is Rollcall in the checkout of `--before DIR`.
 */
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import pg from 'pg';
import { startPostgres } from '../test/helpers/postgres.ts';
import { sizes, usualSize } from './bodies.ts';
import { before, type Contender, compare, countCpu, DEPLOYED, type Figures, startPart } from './harness.ts';
import { flow } from './scale/flow.ts';

const MESSAGES = 40_000;
const ON_THEIR_WAY = 4_000;
/** Messages per second of the steady rate. */
const STEADY = 4_000;
/** Messages of each process before those that count: by then its code is compiled, and its heap has its size. */
const WARM_UP = 20_000;
const server = await startPostgres(['shared_buffers = 512MB', 'max_wal_size = 4GB', 'autovacuum_naptime = 5s']);

/** Syncs of the disk that the server has asked for. */
async function diskSyncs(url: string): Promise<number> {
  const client = new pg.Client(url);
  await client.connect();
  const { rows } = await client.query<{ syncs: number }>('SELECT sum(fsyncs)::float8 AS syncs FROM pg_stat_io');
  await client.end();
  return rows[0]?.syncs ?? Number.NaN;
}

interface Conditions {
  /** Messages that go in each second; without it, as many as come out. */
  readonly perSecond?: number;
  /** Whether other work takes all cores. */
  readonly isBusy?: boolean;
}

async function measure(
  name: string,
  kb: number,
  processes: number,
  { perSecond, isBusy = false }: Conditions = {},
): Promise<Figures> {
  const database = await server.database();
  const sink = await startPart(new URL('scale/sink.ts', import.meta.url));
  const work = JSON.stringify({ database, sink: `http://127.0.0.1:${sink.ready}`, kb });
  const [from, contender] = name === 'before' ? [before, 'rollcall'] : [import.meta.url, name];
  const drivers = [];
  // One after the other: the first makes the tables.
  for (let n = 0; n < processes; n += 1) {
    drivers.push(await startPart(new URL('scale/driver.ts', from), [contender, work], DEPLOYED));
  }
  await flow(drivers, sink, WARM_UP * processes, { onTheirWay: ON_THEIR_WAY });
  const others = [];
  for (let n = 0; isBusy && n < availableParallelism(); n += 1) {
    others.push(await startPart(new URL('scale/busy.ts', import.meta.url)));
  }
  const syncsBefore = await diskSyncs(database);
  const databaseCpu = countCpu([server.pid as number]);
  const ownCpu = countCpu(drivers.map(({ pid }) => pid));
  const started = performance.now();
  await flow(drivers, sink, MESSAGES, { onTheirWay: ON_THEIR_WAY, perSecond });
  const seconds = (performance.now() - started) / 1_000;
  const ownMicros = ownCpu();
  const databaseMicros = databaseCpu();
  const syncs = (await diskSyncs(database)) - syncsBefore;
  for (const other of others) await other.stop();
  for (const driver of drivers) {
    const stopped = once(driver.process, 'message');
    driver.process.send('stop');
    await stopped;
    await driver.stop();
  }
  await sink.stop();
  return {
    perSecond: MESSAGES / seconds,
    cpuMicros: (ownMicros + databaseMicros) / MESSAGES,
    databaseShare: databaseMicros / (ownMicros + databaseMicros),
    syncsPerSecond: syncs / seconds,
  };
}

const contenders: Record<string, Contender> = {};
const ratios: Record<string, [string, string, string]> = {};
const own = ['rollcall', ...(before ? ['before'] : [])];
for (const kb of sizes) {
  const isUsual = kb === usualSize;
  for (const processes of isUsual ? [1, 2, 4] : [1, 4]) {
    const where = `${kb} KB × ${processes}`;
    for (const name of [...own, 'graphile', ...(isUsual ? ['boss'] : [])]) {
      contenders[`${name} ${where}`] = () => measure(name, kb, processes);
      if (name === 'rollcall') continue;
      for (const figure of ['perSecond', 'cpuMicros']) {
        ratios[`${figure}: rollcall / ${name}, ${where}`] = [`rollcall ${where}`, `${name} ${where}`, figure];
      }
    }
  }
}
for (const name of [...own, 'graphile']) {
  const usual = `${name} ${usualSize} KB`;
  for (const processes of [1, 4]) {
    const label = `${usual} × ${processes}`;
    contenders[`${label} at a steady rate`] = () => measure(name, usualSize, processes, { perSecond: STEADY });
    contenders[`${label} beside other work`] = () => measure(name, usualSize, processes, { isBusy: true });
  }
  for (const where of ['', ' at a steady rate', ' beside other work']) {
    ratios[`cpuMicros: ${usual} × 4 / × 1${where}`] = [`${usual} × 4${where}`, `${usual} × 1${where}`, 'cpuMicros'];
  }
}
await compare({ name: 'scale', contenders, ratios });
await server.stop();
