import pg from 'pg';
import t from 'tap';
import { systemClock } from '../../src/clock.ts';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { openPostgresStore } from '../../src/store/postgres/store.ts';
import { accept, change, claimOne, REFUSED, settle } from '../contract/store-fixture.ts';
import { startFastPostgres } from '../helpers/postgres.ts';

const server = await startFastPostgres();
t.teardown(() => server.stop());

t.test('a change that is accepted while an older one dies leaves no dead letter of it', async (t) => {
  const url = await server.database();
  await migratePostgres(url);
  const store = await openPostgresStore({ url, maxQueued: 100, clock: systemClock });
  const [holder, watcher] = [new pg.Client(url), new pg.Client(url)];
  await Promise.all([holder.connect(), watcher.connect()]);
  t.teardown(() => Promise.all([store.close(), holder.end(), watcher.end()]));
  const waiting = async (count: number) => {
    const sql = `SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    while ((await watcher.query<{ n: number }>(sql)).rows[0]?.n !== count);
  };
  const owner = await store.join(60_000);
  await accept(store, change('vip:u0', { body: '"old"' }));
  const old = await claimOne(store, owner);
  await holder.query('BEGIN; SELECT FROM rollcall.delivery FOR UPDATE');
  const settled = settle(store, owner, [old], REFUSED);
  await waiting(1);
  const accepted = accept(store, change('vip:u0', { body: '"new"' }));
  await waiting(2);
  await holder.query('COMMIT');
  await Promise.all([settled, accepted]);
  t.same(await store.deadLetters({ limit: 10 }), []);
  t.match(await store.backlog(), [{ pending: 1, dead: 0 }]);
  t.equal((await claimOne(store, owner)).body, '"new"');
});
