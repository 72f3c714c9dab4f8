import pg from 'pg';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/kernel/clock.ts';
import { migratePostgres } from '../../../src/store/postgres/migrate.ts';
import { openPostgresStore } from '../../../src/store/postgres/store.ts';
import { accept, message } from '../../contract/store-fixture.ts';
import { startFastPostgres } from '../../helpers/postgres.ts';

const server = await startFastPostgres();
t.teardown(() => server.stop());

/** A new database of this version, and a session of somebody else in it. */
async function migrated(t: Test) {
  const url = await server.store();
  const other = new pg.Client(url);
  await other.connect();
  t.teardown(() => other.end());
  return { url, other };
}

async function open(t: Test, url: string) {
  const store = await openPostgresStore({ url, maxQueued: 100, clock: systemClock });
  t.teardown(() => store.close());
  return store;
}

t.test('leaves the tables of a newer Rollcall as they are', async (t) => {
  const { url, other } = await migrated(t);
  await other.query('INSERT INTO rollcall.migration VALUES (999)');
  await other.query('ALTER TABLE rollcall.lease SET (fillfactor = 60)');
  await t.rejects(migratePostgres(url), { code: 'store_outdated', message: /newer Rollcall/ });
  const { rows } = await other.query(`SELECT reloptions FROM pg_class WHERE oid = 'rollcall.lease'::regclass`);
  t.same(rows, [{ reloptions: ['fillfactor=60'] }]);
});

t.test('does not wait for readers if there is nothing to migrate', async (t) => {
  const { url, other } = await migrated(t);
  await other.query('BEGIN; SELECT FROM rollcall.delivery');
  t.same(await migratePostgres(url), []);
});

t.test('accepts messages while a migration waits for readers', async (t) => {
  const { url, other } = await migrated(t);
  const store = await open(t, url);
  await other.query('ALTER TABLE rollcall.delivery ALTER body SET STORAGE EXTENDED');
  await other.query('BEGIN; SELECT FROM rollcall.delivery');
  const waits = Promise.withResolvers<void>();
  const migrating = migratePostgres(url, waits.resolve);
  await waits.promise;
  t.match(await accept(store, message()), { accepted: 1 });
  await other.query('COMMIT');
  t.same(await migrating, []);
});

t.test('lets processes prepare or drop the same days of the log at once', async (t) => {
  const { url } = await migrated(t);
  const logs = [(await open(t, url)).events, (await open(t, url)).events];
  const tables = logs.filter((log) => log.kind === 'table');
  const now = Date.parse('2026-11-23');
  await t.resolves(Promise.all(tables.map((log) => log.prepare(now, 0))));
  t.match(await tables[0]?.size(), { partitions: 8 });
  await t.resolves(Promise.all(tables.map((log) => log.dropBefore('2027-01-01'))));
  t.match(await tables[0]?.size(), { partitions: 0 });
});
