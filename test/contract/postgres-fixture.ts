import pg from 'pg';
import type { Store } from '../../src/store/port.ts';
import { openPostgresStore } from '../../src/store/postgres/store.ts';
import { keepConnections } from '../helpers/kept-connections.ts';
import { emptyTables } from '../helpers/store.ts';
import { type OpenFixture, START, StandingClock } from './store-fixture.ts';

/** Stores over one migrated database, emptied each time, whose clock is held still. */
export async function postgresFixtures(
  direct: string,
  url = direct,
): Promise<{ readonly open: OpenFixture; end(): Promise<void> }> {
  const admin = new pg.Client(direct);
  await admin.connect();
  await admin.query('CREATE TABLE public.clock (ms bigint)');
  await admin.query('INSERT INTO public.clock VALUES (0)');
  // A pooler keeps them itself.
  if (url === direct) keepConnections(url);
  const open: OpenFixture = async () => {
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
  };
  return { open, end: () => admin.end() };
}
