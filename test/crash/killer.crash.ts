import t from 'tap';
import { startPostgres } from '../helpers/postgres.ts';
import { findKiller, kill } from './killer.ts';

for (let round = 1; round <= 5; round += 1) {
  await t.test('SQLite: finds a delivery that ends the process', (t) => findKiller(t));
}
await t.test('SQLite: buries no delivery in thirty kills under full load', (t) => kill(t, 30));
const postgres = await startPostgres();
t.teardown(() => postgres.stop());
await t.test('Postgres: finds a delivery that ends the process', async (t) => findKiller(t, await postgres.database()));
await t.test('Postgres: buries no delivery in three kills under full load', async (t) =>
  kill(t, 3, await postgres.database()),
);
