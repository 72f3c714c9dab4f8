/**
 * 1, 2 and 4 processes on one Postgres, beside graphile-worker and pg-boss: take messages in and deliver them, signed, to a
 * sink on loopback, with 4,000 on their way at any time, and at a steady rate that leaves the machine idle for a part of the
 * time. While all cores are busy, the same work takes more CPU time than while some are idle, as they share caches and memory.
 * `on one core` shows what more processes cost apart from that: the contender and its database have one core, which is always
 * full, and the sink has the others. Each process is warm before it counts, and has the young generation of a deployed one, the
 * peers' too. The database's processes count with those of the contender; the sink's do not. `before` is Rollcall in the checkout
 * of `--before DIR`.
 *
 * More processes may do more, which is our cost, or the same work may take longer, which is the machine's. These counts of a
 * thousand messages tell them apart: `commits`, pages that the database looked at (`pages`), rows that it wrote (`rows`), bytes of its log
 * (`wal`), how often a thread waited (`waits`) or had to leave its core (`evictions`), and milliseconds of V8's threads, which
 * compile and collect (`helperMs`). And `bare` posts the same, signed, without a queue or a database: its processes share nothing
 * but the machine.
 */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import pg from 'pg';
import { startPostgres } from '../test/helpers/postgres.ts';
import { sizes, usualSize } from './bodies.ts';
import { before, type Contender, compare, countCpu, DEPLOYED, type Figures, familyOf, startPart } from './harness.ts';
import { flow } from './scale/flow.ts';

/** Messages of each process that count. */
const MESSAGES = 40_000;
const ON_THEIR_WAY = 4_000;
/** Messages per second of the steady rate. */
const STEADY = 4_000;
/** Messages of each process before those that count: by then its code is compiled, and its heap has its size. */
const WARM_UP = 60_000;
const server = await startPostgres(['shared_buffers = 512MB', 'max_wal_size = 4GB', 'autovacuum_naptime = 5s']);

/** Counts of the server and these processes until now; `syncs` are those of the disk. */
async function countsOf(url: string, pids: readonly number[]): Promise<Figures> {
  // First: the session of the query ends with it.
  const threads = { waits: 0, evictions: 0, helperMs: 0 };
  for (const pid of familyOf(pids)) {
    for (const task of readdirSync(`/proc/${pid}/task`)) {
      const read = (file: string) => readFileSync(`/proc/${pid}/task/${task}/${file}`, 'utf8');
      const status = read('status');
      threads.waits += Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(status)?.[1]);
      threads.evictions += Number(/^nonvoluntary_ctxt_switches:\s+(\d+)/m.exec(status)?.[1]);
      if (task !== `${pid}`) threads.helperMs += Number(read('schedstat').split(' ')[0]) / 1e6;
    }
  }
  const client = new pg.Client(url);
  await client.connect();
  const { rows } = await client.query<Figures>(`SELECT sum(xact_commit)::float8 AS commits,
    sum(blks_hit + blks_read)::float8 AS pages, sum(tup_inserted + tup_updated + tup_deleted)::float8 AS rows,
    (pg_current_wal_insert_lsn() - '0/0')::float8 AS wal, (SELECT sum(fsyncs) FROM pg_stat_io)::float8 AS syncs
    FROM pg_stat_database`);
  await client.end();
  return { ...rows[0], ...threads };
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
  const pids = drivers.map(({ pid }) => pid);
  if (isOnOneCore) {
    confine([postmaster, ...pids], '0');
    confine([sink.pid], `1-${LAST_CORE}`);
  }
  const countsBefore = await countsOf(database, [postmaster, ...pids]);
  const databaseCpu = countCpu([postmaster]);
  const ownCpu = countCpu(pids);
  const started = performance.now();
  const count = MESSAGES * processes;
  await flow(drivers, sink, count, { onTheirWay: ON_THEIR_WAY, perSecond });
  const seconds = (performance.now() - started) / 1_000;
  const ownMicros = ownCpu();
  const databaseMicros = databaseCpu();
  const { syncs = 0, ...counts } = await countsOf(database, [postmaster, ...pids]);
  if (isOnOneCore) confine([postmaster], `0-${LAST_CORE}`);
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
    syncsPerSecond: (syncs - (countsBefore['syncs'] ?? 0)) / seconds,
    ...Object.fromEntries(
      Object.entries(counts).map(([name, value]) => [name, ((value - (countsBefore[name] ?? 0)) * 1_000) / count]),
    ),
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
    for (const name of [...own, 'graphile', 'bare', ...(isUsual ? ['boss'] : [])]) {
      contenders[`${name} ${where}`] = () => measure(name, kb, processes);
      if (name === 'rollcall') continue;
      for (const figure of ['perSecond', 'cpuMicros']) addRatio(figure, `rollcall ${where}`, `${name} ${where}`);
    }
  }
  for (const name of [...own, 'graphile', 'bare'])
    addRatio('cpuMicros', `${name} ${kb} KB × 4`, `${name} ${kb} KB × 1`);
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
