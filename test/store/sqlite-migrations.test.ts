import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import { systemClock } from '../../src/clock.ts';
import { openSqliteStore } from '../../src/store/sqlite/store.ts';
import { accept, message } from '../contract/store-fixture.ts';

const open = (path: string) => openSqliteStore({ path, maxQueued: 100, clock: systemClock });

t.test('several that open a new file at once make its tables once', async (t) => {
  const path = join(t.testdir({}), 'rollcall.db');
  const stores = await Promise.all([open(path), open(path), open(path)]);
  const given = message();
  await Promise.all(stores.map((store) => accept(store, given)));
  t.match(await stores[0].backlog(), [{ pending: 1 }], 'all of them know one list of message ids');
  await Promise.all(stores.map((store) => store.close()));
});

t.test('a file that a newer Rollcall made is refused and left as it is', async (t) => {
  const path = join(t.testdir({}), 'rollcall.db');
  await (await open(path)).close();
  const file = new DatabaseSync(path);
  t.teardown(() => file.close());
  file.exec('PRAGMA user_version = 999');
  await t.rejects(open(path), { code: 'store_outdated', message: /newer Rollcall/ });
  t.match(file.prepare('PRAGMA user_version').get(), { user_version: 999 });
});
