import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import t from 'tap';
import { systemClock } from '../../../src/kernel/clock.ts';
import type { Store } from '../../../src/store/port.ts';
import { openPostgresStore } from '../../../src/store/postgres/store.ts';
import { startPostgres } from '../../helpers/postgres.ts';

const server = await startPostgres();
t.teardown(() => server.stop());
const HOUR = 3_600_000;
const LOOKS = 10;

/** The distinct answers of some looks, between which time passes. */
async function answers(look: () => Promise<unknown>): Promise<readonly string[]> {
  const seen = new Set<string>();
  for (let count = 0; count < LOOKS; count += 1) {
    // Looks together wait for each other's connections.
    for (const answer of await Promise.all([look(), look(), look()])) seen.add(JSON.stringify(answer));
    await pause(7);
  }
  return [...seen];
}

async function mark(store: Store): Promise<number> {
  const now = store.time.now();
  const refusal = { since: now, from: now - HOUR, takenAt: null };
  await store.markEndpoint({ endpoint: 'e', destination: 'd', pausedAt: now, deadSince: null, refusal });
  await store.pauseAudience({ key: 'vip', at: systemClock.now(), by: 'anna' });
  return now;
}

t.test('reads a time as the same time each time', async (t) => {
  const store = await openPostgresStore({ url: await server.store(), maxQueued: 10, clock: systemClock });
  t.teardown(() => store.close());
  const now = await mark(store);
  t.equal((await answers(() => store.endpoints())).length, 1);
  t.equal((await answers(() => store.pausedAudiences())).length, 1);
  const [{ pausedAt } = { pausedAt: null }] = await store.endpoints();
  t.ok(Math.abs((pausedAt ?? 0) - now) < 500);
});

t.test('follows the clock of the database in one step', async (t) => {
  const url = await server.store();
  const admin = new pg.Client(url);
  await admin.connect();
  await admin.query('CREATE TABLE public.clock (ahead bigint); INSERT INTO public.clock VALUES (0)');
  const time = '(SELECT (extract(epoch FROM statement_timestamp()) * 1000)::bigint + ahead FROM public.clock)';
  const store = await openPostgresStore({ url, maxQueued: 10, clock: systemClock, time });
  t.teardown(async () => {
    await store.close();
    await admin.end();
  });
  let owner = await store.join(HOUR);
  for (const ahead of [400 * 24 * HOUR, -HOUR, 700, 0]) {
    await admin.query('UPDATE public.clock SET ahead = $1', [ahead]);
    const now = await mark(store);
    const [{ pausedAt } = { pausedAt: null }] = await store.endpoints();
    t.ok(Math.abs((pausedAt ?? 0) - now) < 2_000, `${ahead}: right before it is noticed`);
    // A clock that is ahead ends the lease.
    if (!(await store.heartbeat(owner, HOUR))) owner = await store.join(HOUR);
    t.equal((await answers(() => store.endpoints())).length, 1, `${ahead}: one value afterwards`);
  }
});
