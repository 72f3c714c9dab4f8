/**
 * Do the tables stay small and fast? Takes millions of deliveries (`--millions`, 10 unless given) through the store's verbs,
 * without HTTP: one process's store accepts, another's claims and settles, in batches as in production and with 4,000
 * waiting, so that every delivery is written three times (accepted, claimed, deleted). Prints a line per million.
 */
import { parseArgs } from 'node:util';
import pg from 'pg';
import { systemClock } from '../src/clock.ts';
import type { Claim, Settlement } from '../src/store/port.ts';
import { migratePostgres } from '../src/store/postgres/migrate.ts';
import { openPostgresStore } from '../src/store/postgres/store.ts';
import { startPostgres } from '../test/helpers/postgres.ts';
import { countCpu, machine } from './harness.ts';
import { BATCH, message } from './scale/work.ts';

const WAITING = 4_000;
const CLAIM = 500;
const { values } = parseArgs({ strict: false, options: { millions: { type: 'string' }, step: { type: 'string' } } });
const millions = Number(values['millions'] ?? 10);
const step = Number(values['step'] ?? 1_000_000);

const server = await startPostgres(['shared_buffers = 512MB', 'max_wal_size = 4GB', 'autovacuum_naptime = 5s']);
const url = await server.database();
await migratePostgres(url);
const admin = new pg.Client(url);
await admin.connect();
const options = { url, maxQueued: 1_000_000, clock: systemClock };
const [inward, outward] = [await openPostgresStore(options), await openPostgresStore(options)];
const owner = await outward.join(60_000);
const heartbeat = setInterval(() => void outward.heartbeat(owner, 60_000), 5_000);

let accepted = 0;
async function accept(): Promise<void> {
  const messages = Array.from({ length: BATCH }, () => {
    accepted += 1;
    const { id, userId, body } = message(accepted);
    const routed = { destinations: ['crm'], lane: 'live', conflict: null } as const;
    return { source: 'shop', messageId: id, type: 'track' as const, userId, body, ...routed };
  });
  await inward.accept({ messages, step: null });
}

function delivered(claim: Claim): Settlement {
  const attempt = { endpoint: 'crm-abcdef12', at: Date.now(), ms: 3, outcome: 'success', status: 200 } as const;
  return { claim, verdict: { kind: 'delivered' }, attempts: [{ ...attempt, error: null, response: null }] };
}

/** Several claims at a time are on their way, as from a worker whose attempts end while it claims. */
async function deliver(count: number): Promise<void> {
  let settling: Promise<void> = Promise.resolve();
  for (let taken = 0; taken < count; ) {
    const limit = Math.min(CLAIM, count - taken);
    const { claims } = await outward.claim(owner, [{ destination: 'crm', limit, order: 'usual' }]);
    const mine = claims[0] ?? [];
    taken += mine.length;
    const writing = [];
    while (accepted < done + taken + WAITING) writing.push(accept());
    await settling;
    settling = outward.settle(owner, mine.map(delivered));
    await Promise.all(writing);
  }
  await settling;
}

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

console.error(`churn (${machine()})`);
let done = 0;
const lines: Record<string, Record<string, number>> = {};
while (accepted < WAITING) await accept();
while (done < millions * 1e6) {
  const databaseCpu = countCpu([server.pid as number]);
  const started = performance.now();
  await deliver(step);
  done += step;
  const perSecond = Math.round(step / ((performance.now() - started) / 1_000));
  const line = { perSecond, 'database µs': Math.round((databaseCpu() / step) * 10) / 10, ...(await sizes()) };
  lines[`${done / 1e6} M`] = line;
  console.error(`${done / 1e6} M`, JSON.stringify(line));
}
console.table(lines);
clearInterval(heartbeat);
await inward.close();
await outward.close();
await admin.end();
await server.stop();
