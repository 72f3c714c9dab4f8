import pg from 'pg';
import type { Store } from '../../src/store/port.ts';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { openPostgresStore } from '../../src/store/postgres/store.ts';
import { storeContract } from '../contract/store.ts';
import { START, StandingClock } from '../contract/store-fixture.ts';
import { emptyTables } from '../helpers/database.ts';
import { startPostgres } from '../helpers/postgres.ts';

const server = await startPostgres();
const url = await server.database();
await migratePostgres(url);
const admin = new pg.Client(url);
await admin.connect();
// The database's clock, held still.
await admin.query('CREATE TABLE public.clock (ms bigint)');
await admin.query('INSERT INTO public.clock VALUES (0)');

await storeContract('postgres', async () => {
  await emptyTables(admin);
  await admin.query(`UPDATE public.clock SET ms = ${START}`);
  const clock = new StandingClock();
  const opened: Store[] = [];
  return {
    clock,
    async open({ maxQueued = 1_000, skew = 0 } = {}) {
      const time = '(SELECT ms FROM public.clock)';
      const store = await openPostgresStore({ url, maxQueued, clock: clock.ahead(skew), time });
      opened.push(store);
      return store;
    },
    async advance(ms) {
      clock.move(ms);
      await admin.query('UPDATE public.clock SET ms = ms + $1', [ms]);
    },
    close: async () => void (await Promise.all(opened.map((store) => store.close()))),
  };
});

await admin.end();
await server.stop();
