/**
 * 1, 2 and 4 processes on one Postgres, beside graphile-worker and pg-boss: enqueue 40,000 messages and deliver them,
 * signed, to a sink on loopback. The database's processes count with those of the contender; the sink's do not.
 */
import { once } from 'node:events';
import { migratePostgres } from '../src/store/postgres/migrate.ts';
import { startPostgres } from '../test/helpers/postgres.ts';
import { type Contender, compare, countCpu, type Figures, startPart } from './harness.ts';

const MESSAGES = Number(process.env['SCALE_MESSAGES'] ?? 40_000);
const server = await startPostgres(['shared_buffers = 512MB', 'max_wal_size = 4GB']);

async function measure(name: string, processes: number): Promise<Figures> {
  const database = await server.database();
  if (name === 'rollcall') await migratePostgres(database);
  const sink = await startPart(new URL('scale/sink.ts', import.meta.url), [String(MESSAGES)]);
  const work = { database, sink: `http://127.0.0.1:${sink.ready}`, count: MESSAGES / processes };
  const drivers = [];
  // One after the other: the first makes the peers' tables.
  for (let n = 0; n < processes; n += 1) {
    drivers.push(await startPart(new URL('scale/driver.ts', import.meta.url), [name, JSON.stringify(work)]));
  }
  const pids = drivers.map(({ pid }) => pid);
  const database_ = countCpu([server.pid as number]);
  const own = countCpu(pids);
  const started = Date.now();
  const finished = once(sink.process, 'message');
  for (const { process } of drivers) process.send('go');
  const [{ at }] = (await finished) as [{ at: number }];
  const ownMicros = own();
  const databaseMicros = database_();
  for (const driver of drivers) {
    const stopped = once(driver.process, 'message');
    driver.process.send('stop');
    await stopped;
    await driver.stop();
  }
  await sink.stop();
  return {
    perSecond: MESSAGES / ((at - started) / 1_000),
    cpuMicros: (ownMicros + databaseMicros) / MESSAGES,
    databaseShare: databaseMicros / (ownMicros + databaseMicros),
  };
}

const contenders: Record<string, Contender> = {};
for (const processes of [1, 2, 4]) {
  for (const name of ['rollcall', 'graphile', 'boss'])
    contenders[`${name} × ${processes}`] = () => measure(name, processes);
}
const ratios: Record<string, [string, string, string]> = {
  'CPU per delivery, 4 processes to 1': ['rollcall × 4', 'rollcall × 1', 'cpuMicros'],
};
for (const processes of [1, 2, 4]) {
  for (const peer of ['graphile', 'boss']) {
    for (const figure of ['perSecond', 'cpuMicros']) {
      ratios[`${figure}: rollcall / ${peer}, × ${processes}`] = [
        `rollcall × ${processes}`,
        `${peer} × ${processes}`,
        figure,
      ];
    }
  }
}
await compare({ name: 'scale', contenders, ratios });
await server.stop();
