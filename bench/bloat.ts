/**
 * What becomes of a queue while Postgres can't take back dead rows: beside nothing, an idle transaction, and a pg_dump that is
 * slow. Without HTTP, so that the database is what counts. Each takes `--steps` of `--step` messages (4 of 200,000 unless
 * given), or with `--minutes` as many as it can, after one step in which nothing is held; a step ends early after two minutes.
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
  options: { step: { type: 'string' }, steps: { type: 'string' }, minutes: { type: 'string' } },
});
const STEP = Number(values['step'] ?? 200_000);
const STEPS = Number(values['steps'] ?? 4);
const MINUTES = values['minutes'] === undefined ? null : Number(values['minutes']);
const LONGEST = 120_000;
const PART = 2_000;
const server = await startPostgres(['shared_buffers = 512MB', 'max_wal_size = 4GB', 'autovacuum_naptime = 5s']);

interface Step {
  readonly perSecond: number;
  readonly databaseMicros: number;
  /** Pages that the database looked at for each: unlike CPU time, they do not depend on what else runs on the machine. */
  readonly pages: number;
}

const PAGES = 'SELECT (blks_hit + blks_read)::float8 AS pages FROM pg_stat_database WHERE datname = current_database()';

async function measure(queue: Queue, watcher: pg.Client): Promise<Step> {
  const looked = async () => (await watcher.query<{ pages: number }>(PAGES)).rows[0]?.pages ?? Number.NaN;
  const before = await looked();
  const cpu = countCpu([server.pid as number]);
  const started = performance.now();
  const elapsed = () => performance.now() - started;
  let count = 0;
  for (; count < STEP && elapsed() < LONGEST; count += PART) await queue.deliver(PART);
  const perSecond = Math.round(count / (elapsed() / 1_000));
  const rounded = (sum: number) => Math.round((sum / count) * 10) / 10;
  return { perSecond, databaseMicros: rounded(cpu()), pages: rounded((await looked()) - before) };
}

async function run(open: (url: string) => Promise<Queue>, pin: Pin | null): Promise<Figures> {
  const url = await server.database();
  const queue = await open(url);
  const watcher = new pg.Client(url);
  await watcher.connect();
  const before = await measure(queue, watcher);
  console.error('before', JSON.stringify(before));
  const release = await pin?.(url);
  const started = performance.now();
  const goesOn = (step: number) => (MINUTES === null ? step < STEPS : performance.now() - started < MINUTES * 60_000);
  let last = before;
  for (let step = 0; goesOn(step); step += 1) {
    last = await measure(queue, watcher);
    console.error(`step ${step + 1}`, JSON.stringify(last));
  }
  await release?.();
  await queue.close();
  await watcher.end();
  return {
    'per second before': before.perSecond,
    'at the end': last.perSecond,
    'database µs before': before.databaseMicros,
    'µs at the end': last.databaseMicros,
    'pages before': before.pages,
    'pages at the end': last.pages,
    kept: last.perSecond / before.perSecond,
    dearer: last.databaseMicros / before.databaseMicros,
  };
}

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
await server.stop();
