/**
 * 1, 2 and 4 processes on one Postgres, beside graphile-worker and pg-boss: take messages in and deliver them, signed, to a
 * sink on loopback, with 4,000 on their way at any time, and at a steady rate that leaves the machine idle for a part of the
 * time. While all cores are busy, the same work takes more CPU time than while some are idle, as they share caches and memory.
 * `on one core` shows what more processes cost apart from that: the contender and its database have one core, which is always
 * full, and the sink has the others. `commits` are transactions for a thousand messages. Each process is warm before it counts,
 * and has the young generation of a deployed one, the peers' too. The database's processes count with those of the contender; the
 * sink's do not. `before` is Rollcall in the checkout of `--before DIR`.
 */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import pg from 'pg';
import { startPostgres } from '../test/helpers/postgres.ts';
import { sizes, usualSize } from './bodies.ts';
import { before, type Contender, compare, countCpu, DEPLOYED, type Figures, familyOf, startPart } from './harness.ts';
import { flow } from './scale/flow.ts';

const MESSAGES = 40_000;
const ON_THEIR_WAY = 4_000;
/** Messages per second of the steady rate. */
const STEADY = 4_000;
/** Messages of each process before those that count: by then its code is compiled, and its heap has its size. */
const WARM_UP = 60_000;
const server = await startPostgres(['shared_buffers = 512MB', 'max_wal_size = 4GB', 'autovacuum_naptime = 5s']);

/** Syncs of the disk that the server has asked for, and transactions that it has committed. */
async function countsOf(url: string): Promise<{ readonly syncs: number; readonly commits: number }> {
  const client = new pg.Client(url);
  await client.connect();
  const { rows } = await client.query(`SELECT (SELECT sum(fsyncs) FROM pg_stat_io)::float8 AS syncs,
    (SELECT sum(xact_commit) FROM pg_stat_database)::float8 AS commits`);
  await client.end();
  return rows[0];
}

/** Lets processes and all that they start run on some cores only, such as `0-1`. */
function confine(pids: readonly number[], cores: string): void {
  for (const pid of familyOf(pids)) execFileSync('taskset', ['-acp', cores, String(pid)], { stdio: 'ignore' });
}
const LAST_CORE = availableParallelism() - 1;

interface Conditions {
  /** Messages that go in each second; without it, as many as come out. */
  readonly perSecond?: number;
  /** True to leave one core to the contender and its database, and the others to the sink. */
  readonly isOnOneCore?: boolean;
}

async function measure(
  name: string,
  kb: number,
  processes: number,
  { perSecond, isOnOneCore = false }: Conditions = {},
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
  const postmaster = server.pid as number;
  if (isOnOneCore) {
    confine([postmaster, ...drivers.map(({ pid }) => pid)], '0');
    confine([sink.pid], `1-${LAST_CORE}`);
  }
  const countsBefore = await countsOf(database);
  const databaseCpu = countCpu([postmaster]);
  const ownCpu = countCpu(drivers.map(({ pid }) => pid));
  const started = performance.now();
  await flow(drivers, sink, MESSAGES, { onTheirWay: ON_THEIR_WAY, perSecond });
  const seconds = (performance.now() - started) / 1_000;
  const ownMicros = ownCpu();
  const databaseMicros = databaseCpu();
  const countsAfter = await countsOf(database);
  if (isOnOneCore) confine([postmaster], `0-${LAST_CORE}`);
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
    syncsPerSecond: (countsAfter.syncs - countsBefore.syncs) / seconds,
    commits: ((countsAfter.commits - countsBefore.commits) * 1_000) / MESSAGES,
  };
}

const contenders: Record<string, Contender> = {};
const ratios: Record<string, [string, string, string]> = {};
const own = ['rollcall', ...(before ? ['before'] : [])];
function addRatio(figure: string, a: string, b: string): void {
  ratios[`${figure}: ${a} / ${b}`] = [a, b, figure];
}
for (const kb of sizes) {
  const isUsual = kb === usualSize;
  for (const processes of isUsual ? [1, 2, 4] : [1, 4]) {
    const where = `${kb} KB × ${processes}`;
    for (const name of [...own, 'graphile', ...(isUsual ? ['boss'] : [])]) {
      contenders[`${name} ${where}`] = () => measure(name, kb, processes);
      if (name === 'rollcall') continue;
      for (const figure of ['perSecond', 'cpuMicros']) addRatio(figure, `rollcall ${where}`, `${name} ${where}`);
    }
  }
  for (const name of [...own, 'graphile']) addRatio('cpuMicros', `${name} ${kb} KB × 4`, `${name} ${kb} KB × 1`);
}
for (const name of [...own, 'graphile']) {
  const usual = `${name} ${usualSize} KB`;
  for (const processes of [1, 4]) {
    const label = `${usual} × ${processes}`;
    contenders[`${label} at a steady rate`] = () => measure(name, usualSize, processes, { perSecond: STEADY });
    contenders[`${label} on one core`] = () => measure(name, usualSize, processes, { isOnOneCore: true });
  }
  for (const where of [' at a steady rate', ' on one core']) {
    addRatio('cpuMicros', `${usual} × 4${where}`, `${usual} × 1${where}`);
  }
}
await compare({ name: 'scale', contenders, ratios });
await server.stop();
