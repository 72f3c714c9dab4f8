/**
 * Do the tables stay small and fast? Takes millions of deliveries (`--millions`, 10 unless given) through the store's verbs,
 * without HTTP: one process's store accepts, another's claims and settles, in batches as in production and with 4,000
 * waiting, so that every delivery is written three times (accepted, claimed, deleted). Prints a line per million.
 */
import { parseArgs } from 'node:util';
import pg from 'pg';
import { startPostgres } from '../test/helpers/postgres.ts';
import { rollcall } from './bloat/rollcall.ts';
import { countCpu, machine } from './harness.ts';

const { values } = parseArgs({ strict: false, options: { millions: { type: 'string' }, step: { type: 'string' } } });
const millions = Number(values['millions'] ?? 10);
const step = Number(values['step'] ?? 1_000_000);

const server = await startPostgres(['shared_buffers = 512MB', 'max_wal_size = 4GB', 'autovacuum_naptime = 5s']);
const url = await server.database();
const queue = await rollcall(url);
const admin = new pg.Client(url);
await admin.connect();

const SIZES = `
  SELECT c.relname AS name, pg_table_size(c.oid)::float8 / 1e6 AS mb FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'rollcall' AND c.relname ~ '^(delivery|attempt|seen|backlog)'`;
const DEAD = `SELECT n_dead_tup::int AS dead, autovacuum_count::int AS vacuums FROM pg_stat_all_tables
  WHERE schemaname = 'rollcall' AND relname = 'delivery'`;

async function sizes(): Promise<Record<string, number>> {
  const { rows } = await admin.query<{ name: string; mb: number }>(SIZES);
  const of = (...names: string[]) => rows.reduce((sum, { name, mb }) => (names.includes(name) ? sum + mb : sum), 0);
  const stats = (await admin.query<{ dead: number; vacuums: number }>(DEAD)).rows[0];
  return {
    'delivery MB': Math.round(of('delivery')),
    'its indexes MB': Math.round(of('delivery_pkey', 'delivery_ready', 'delivery_claimed', 'delivery_conflict')),
    'dead rows': stats?.dead ?? Number.NaN,
    vacuums: stats?.vacuums ?? Number.NaN,
    'attempt MB': Math.round(of('attempt', 'attempt_pkey')),
    'seen MB': Math.round(of('seen', 'seen_pkey', 'seen_batch')),
  };
}

/** Bytes of the log since the server began. */
async function written(): Promise<number> {
  const { rows } = await admin.query<{ bytes: number }>("SELECT (pg_current_wal_lsn() - '0/0')::float8 AS bytes");
  return rows[0]?.bytes ?? Number.NaN;
}

console.error(`churn (${machine()})`);
let done = 0;
const lines: Record<string, Record<string, number>> = {};
while (done < millions * 1e6) {
  const databaseCpu = countCpu([server.pid as number]);
  const before = await written();
  const started = performance.now();
  await queue.deliver(step);
  done += step;
  const perSecond = Math.round(step / ((performance.now() - started) / 1_000));
  const line = {
    perSecond,
    'database µs': Math.round((databaseCpu() / step) * 10) / 10,
    'WAL bytes': Math.round(((await written()) - before) / step),
    ...(await sizes()),
  };
  lines[`${done / 1e6} M`] = line;
  console.error(`${done / 1e6} M`, JSON.stringify(line));
}
console.table(lines);
await queue.close();
await admin.end();
await server.stop();
