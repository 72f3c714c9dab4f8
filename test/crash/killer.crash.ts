import t from 'tap';
import { startPostgres } from '../helpers/postgres.ts';
import { findKiller, kill } from './killer.ts';

for (let round = 1; round <= 5; round += 1) {
  await t.test('SQLite: a delivery that ends the process is found', (t) => findKiller(t));
}
await t.test('SQLite: thirty kills under full load bury nobody', (t) => kill(t, 30));
const postgres = await startPostgres();
t.teardown(() => postgres.stop());
await t.test('Postgres: a delivery that ends the process is found', async (t) =>
  findKiller(t, await postgres.database()),
);
await t.test('Postgres: three kills under full load bury nobody', async (t) => kill(t, 3, await postgres.database()));
