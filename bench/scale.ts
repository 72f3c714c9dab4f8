/**
 * 1, 2 and 4 processes on one Postgres, beside graphile-worker and pg-boss: take messages in and deliver them, signed, to a
 * sink on loopback, with 4,000 on their way at any time, and at a steady rate that leaves the machine idle for a part of the
 * time: where all cores are taken, the same work takes more CPU time, as caches are shared. `beside other work` tells that apart
 * from what more processes cost: as many busy processes as there are cores take all that is left, whoever is measured. Each
 * process is warm before it counts, and has the young generation of a deployed one, the peers' too. The database's processes count
 * with those of the contender; the sink's do not.
 */
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { migratePostgres } from '../src/store/postgres/migrate.ts';
import { startPostgres } from '../test/helpers/postgres.ts';
import { type Contender, compare, countCpu, DEPLOYED, type Figures, startPart } from './harness.ts';
import { flow } from './scale/flow.ts';

/** Messages for each process. */
const MESSAGES = Number(process.env['SCALE_MESSAGES'] ?? 80_000);
const ON_THEIR_WAY = Number(process.env['SCALE_ON_THEIR_WAY'] ?? 4_000);
/** Messages per second of the steady rate. */
const STEADY = 4_000;
/** As many before those that count: by then its code is compiled, and its heap has its size. */
const WARM_UP = 40_000;
const server = await startPostgres(['shared_buffers = 512MB', 'max_wal_size = 4GB', 'autovacuum_naptime = 5s']);

interface Conditions {
  /** Messages that go in each second; without it, as many as come out. */
  readonly perSecond?: number;
  /** Whether other work takes all cores. */
  readonly isBusy?: boolean;
}

async function measure(
  name: string,
  processes: number,
  { perSecond, isBusy = false }: Conditions = {},
): Promise<Figures> {
  const database = await server.database();
  if (name === 'rollcall') await migratePostgres(database);
  const sink = await startPart(new URL('scale/sink.ts', import.meta.url));
  const work = JSON.stringify({ database, sink: `http://127.0.0.1:${sink.ready}` });
  const drivers = [];
  // One after the other: the first makes the peers' tables.
  for (let n = 0; n < processes; n += 1) {
    drivers.push(await startPart(new URL('scale/driver.ts', import.meta.url), [name, work], DEPLOYED));
  }
  await flow(drivers, sink, WARM_UP * processes, { onTheirWay: ON_THEIR_WAY });
  const others = [];
  for (let n = 0; isBusy && n < availableParallelism(); n += 1) {
    others.push(await startPart(new URL('scale/busy.ts', import.meta.url)));
  }
  const databaseCpu = countCpu([server.pid as number]);
  const ownCpu = countCpu(drivers.map(({ pid }) => pid));
  const count = MESSAGES * processes;
  const started = performance.now();
  await flow(drivers, sink, count, { onTheirWay: ON_THEIR_WAY, perSecond });
  const seconds = (performance.now() - started) / 1_000;
  const ownMicros = ownCpu();
  const databaseMicros = databaseCpu();
  for (const other of others) await other.stop();
  for (const driver of drivers) {
    const stopped = once(driver.process, 'message');
    driver.process.send('stop');
    await stopped;
    await driver.stop();
  }
  await sink.stop();
  return {
    perSecond: count / seconds,
    cpuMicros: (ownMicros + databaseMicros) / count,
    databaseShare: databaseMicros / (ownMicros + databaseMicros),
  };
}

const contenders: Record<string, Contender> = {};
const ratios: Record<string, [string, string, string]> = {};
for (const processes of [1, 2, 4]) {
  for (const name of ['rollcall', 'graphile', 'boss']) {
    contenders[`${name} × ${processes}`] = () => measure(name, processes);
    if (name === 'rollcall') continue;
    for (const figure of ['perSecond', 'cpuMicros']) {
      const label = `${figure}: rollcall / ${name}, × ${processes}`;
      ratios[label] = [`rollcall × ${processes}`, `${name} × ${processes}`, figure];
    }
  }
}
for (const name of ['rollcall', 'graphile']) {
  for (const processes of [1, 4]) {
    contenders[`${name} × ${processes} at a steady rate`] = () => measure(name, processes, { perSecond: STEADY });
    contenders[`${name} × ${processes} beside other work`] = () => measure(name, processes, { isBusy: true });
  }
  for (const where of ['', ' at a steady rate', ' beside other work']) {
    ratios[`cpuMicros: ${name} × 4 / × 1${where}`] = [`${name} × 4${where}`, `${name} × 1${where}`, 'cpuMicros'];
  }
}
await compare({ name: 'scale', contenders, ratios });
await server.stop();
