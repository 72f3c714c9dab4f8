import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { systemClock } from '../../src/kernel/clock.ts';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { openPostgresStore } from '../../src/store/postgres/store.ts';
import { openSqliteStore } from '../../src/store/sqlite/store.ts';
import { accept, message } from '../contract/store-fixture.ts';
import { startFastPostgres } from '../helpers/postgres.ts';

const open = (path: string) => openSqliteStore({ path, maxQueued: 100, clock: systemClock });

t.test('creates the tables once if several processes open a new file at once', async (t) => {
  const path = join(t.testdir({}), 'rollcall.db');
  const stores = await Promise.all([open(path), open(path), open(path)]);
  const given = message();
  await Promise.all(stores.map((store) => accept(store, given)));
  t.match(await stores[0].backlog(), [{ pending: 1 }], 'all of them know one list of message ids');
  await Promise.all(stores.map((store) => store.close()));
});

t.test('refuses a file of a newer Rollcall and leaves it as it is', async (t) => {
  const path = join(t.testdir({}), 'rollcall.db');
  await (await open(path)).close();
  const file = new DatabaseSync(path);
  t.teardown(() => file.close());
  file.exec('PRAGMA user_version = 999');
  await t.rejects(open(path), { code: 'store_outdated', message: /newer Rollcall/ });
  t.match(file.prepare('PRAGMA user_version').get(), { user_version: 999 });
});

t.test('refuses a database of another program and leaves it as it is, whatever its version', async (t) => {
  for (const version of [0, 1, 999]) {
    const path = join(t.testdir({}), 'shop.db');
    const file = new DatabaseSync(path);
    file.exec(`CREATE TABLE orders (id integer); PRAGMA user_version = ${version}`);
    await t.rejects(open(path), { code: 'store_failed', message: /another program: it has a table "orders"/ });
    t.match(file.prepare('SELECT name FROM sqlite_schema').all(), [{ name: 'orders' }]);
    file.close();
  }
});

t.test('numbers migrations alike in both databases, without gaps', async (t) => {
  const numbers = (database: string) =>
    readdirSync(new URL(`../../src/store/${database}/migrations/`, import.meta.url))
      .filter((file) => file !== 'tuning.sql')
      .map((file) => Number(/^(\d{3})_\w+\.sql$/.exec(file)?.[1]))
      .sort((a, b) => a - b);
  const given = numbers('postgres');
  t.same(
    given,
    given.map((_, index) => index + 1),
  );
  t.same(numbers('sqlite'), given);
});

/** Ends as `kill -9` does, inside the migration of an empty store. */
async function crash(url: string): Promise<string | null> {
  const child = fork(fileURLToPath(new URL('fixtures/crash-in-migration.ts', import.meta.url)), [url]);
  const [, signal] = (await once(child, 'exit')) as [number | null, string | null];
  return signal;
}

t.test('opens a file whose first migration was cut off by a crash', async (t) => {
  const path = join(t.testdir({}), 'rollcall.db');
  t.equal(await crash(path), 'SIGKILL');
  const file = new DatabaseSync(path);
  t.match(file.prepare('PRAGMA user_version').get(), { user_version: 0 });
  t.same(file.prepare('SELECT * FROM sqlite_schema').all(), []);
  file.close();
  const store = await open(path);
  t.match(await accept(store, message()), { accepted: 1 });
  await store.close();
});

t.test(
  'refuses a database whose first migration was cut off by a crash, and migrates it on the next try',
  async (t) => {
    const server = await startFastPostgres();
    t.teardown(() => server.stop());
    const url = await server.database();
    t.equal(await crash(url), 'SIGKILL');
    const opening = () => openPostgresStore({ url, maxQueued: 100, clock: systemClock });
    await t.rejects(opening(), { code: 'store_outdated', message: /rollcall migrate/ });
    t.same(await migratePostgres(url), [1]);
    const store = await opening();
    t.match(await accept(store, message()), { accepted: 1 });
    await store.close();
  },
);
