/**
 * A queue's speed while Postgres can't take back dead rows: beside nothing, an idle transaction, and a pg_dump that is
 * slow. Without HTTP, so that the database is what counts. Each takes `--steps` of `--step` messages (4 of 200,000 unless
 * given), or with `--minutes` as many as it can, after one step in which nothing is held; a step ends early after two minutes.
 * A queue whose database reaches `--gigabytes` (20 unless given) ends there: no dead row is taken back meanwhile.
 * The server is that of the tests, or the one in `POSTGRES_BIN`: a pg_dump must not be older than its server.
 */
import { parseArgs } from 'node:util';
import pg from 'pg';
import { startPostgres } from '../test/helpers/postgres.ts';
import { graphile } from './bloat/graphile.ts';
import { dump, idle, type Pin } from './bloat/pin.ts';
import type { Queue } from './bloat/queue.ts';
import { rollcall } from './bloat/rollcall.ts';
import { type Contender, compare, countCpu, type Figures } from './harness.ts';

const { values } = parseArgs({
  strict: false,
  options: {
    ...{ step: { type: 'string' }, steps: { type: 'string' }, minutes: { type: 'string' } },
    gigabytes: { type: 'string' },
  },
});
const STEP = Number(values['step'] ?? 200_000);
const STEPS = Number(values['steps'] ?? 4);
const MINUTES = values['minutes'] === undefined ? null : Number(values['minutes']);
const GIGABYTES = Number(values['gigabytes'] ?? 20);
const LONGEST = 120_000;
const PART = 2_000;
const server = await startPostgres(['shared_buffers = 512MB', 'max_wal_size = 4GB', 'autovacuum_naptime = 5s']);

interface Step {
  readonly perSecond: number;
  readonly databaseMicros: number;
  /** Pages that the database looked at for each: unlike CPU time, they do not depend on what else runs on the machine. */
  readonly pages: number;
  readonly gigabytes: number;
}

const LOOK = `
  SELECT (blks_hit + blks_read)::float8 AS pages, pg_database_size(current_database())::float8 / 1e9 AS gigabytes
  FROM pg_stat_database WHERE datname = current_database()`;
type Look = Pick<Step, 'pages' | 'gigabytes'>;

async function measure(queue: Queue, watcher: pg.Client, longest = LONGEST): Promise<Step> {
  const look = async () => (await watcher.query<Look>(LOOK)).rows[0] ?? { pages: Number.NaN, gigabytes: Number.NaN };
  const before = await look();
  const cpu = countCpu([server.pid as number]);
  const started = performance.now();
  const elapsed = () => performance.now() - started;
  let count = 0;
  for (; count === 0 || (count < STEP && elapsed() < longest); count += PART) await queue.deliver(PART);
  const perSecond = Math.round(count / (elapsed() / 1_000));
  const rounded = (number: number) => Math.round(number * 10) / 10;
  const databaseMicros = rounded(cpu() / count);
  const { pages, gigabytes } = await look();
  return { perSecond, databaseMicros, pages: rounded((pages - before.pages) / count), gigabytes: rounded(gigabytes) };
}

async function run(open: (url: string) => Promise<Queue>, pin: Pin | null): Promise<Figures> {
  const url = await server.database();
  const queue = await open(url);
  const watcher = new pg.Client(url);
  await watcher.connect();
  const before = await measure(queue, watcher);
  console.error('before', JSON.stringify(before));
  const release = await pin?.(url);
  const { last, minutes } = await steps(queue, watcher, before);
  await release?.();
  await queue.close();
  await watcher.end();
  await server.drop(url);
  return {
    ...{ 'per second before': before.perSecond, 'at the end': last.perSecond },
    ...{ 'database µs before': before.databaseMicros, 'µs at the end': last.databaseMicros },
    ...{ 'pages before': before.pages, 'pages at the end': last.pages },
    ...{ kept: last.perSecond / before.perSecond, dearer: last.databaseMicros / before.databaseMicros },
    ...{ minutes, gigabytes: last.gigabytes },
  };
}

/** One step after the other, until the time is over or the disk is used that it may take. */
async function steps(queue: Queue, watcher: pg.Client, before: Step) {
  const started = performance.now();
  const elapsed = () => performance.now() - started;
  const left = () => (MINUTES === null ? Number.POSITIVE_INFINITY : MINUTES * 60_000 - elapsed());
  let last = before;
  for (let step = 1; (MINUTES !== null || step <= STEPS) && left() > 0 && last.gigabytes < GIGABYTES; step += 1) {
    last = await measure(queue, watcher, Math.min(LONGEST, left()));
    console.error(`step ${step}, ${(elapsed() / 60_000).toFixed(1)} min`, JSON.stringify(last));
  }
  if (last.gigabytes >= GIGABYTES) console.error(`ended: the database takes ${last.gigabytes} GB`);
  return { last, minutes: Math.round(elapsed() / 6_000) / 10 };
}

// An interruption must not leave the server's folder on the disk. Connections break meanwhile.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    process.on('uncaughtException', () => undefined);
    void server.stop().finally(() => process.exit(1));
  });
}
try {
  const pins: Record<string, Pin | null> = { nothing: null, 'an idle transaction': idle };
  const dumping = await dump(await server.database());
  pins[dumping.name] = dumping.pin;
  const contenders: Record<string, Contender> = {};
  for (const [pinName, pin] of Object.entries(pins)) {
    for (const [name, open] of Object.entries({ rollcall, graphile })) {
      contenders[`${name} beside ${pinName}`] = () => run(open, pin);
    }
  }
  await compare({ name: 'bloat', contenders });
} finally {
  await server.stop();
}
