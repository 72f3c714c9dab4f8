import pg from 'pg';
import t from 'tap';
import { systemClock } from '../../../src/kernel/clock.ts';
import { openPostgresStore } from '../../../src/store/postgres/store.ts';
import { accept, backlogOf, claimOne, message } from '../../contract/store-fixture.ts';
import { startFastPostgres } from '../../helpers/postgres.ts';

const server = await startFastPostgres();
t.teardown(() => server.stop());

/** A delivery of a user, claimed; and another session, which has begun to set its state and goes on when told. */
async function scene(state: 'ready' | 'claimed') {
  const url = await server.store();
  const store = await openPostgresStore({ url, maxQueued: 100, clock: systemClock });
  const owner = await store.join(60_000);
  await accept(store, message({ userId: 'gone' }));
  const other = new pg.Client(url);
  await other.connect();
  if (state === 'ready') {
    await claimOne(store, owner);
    await other.query('BEGIN; UPDATE rollcall.delivery SET state = 0, owner = NULL');
  } else await other.query(`BEGIN; UPDATE rollcall.delivery SET state = 1, owner = ${owner}`);
  return {
    store,
    /** Erases the user's deliveries while the other session has its way. */
    async erase() {
      const part = store.erase({ users: ['gone'], anonymous: [] }, null, 'delivery:0');
      const waiting = `SELECT count(*)::int AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock'`;
      let isOver = false;
      void part.then(() => (isOver = true));
      while (!isOver && (await other.query<{ n: number }>(waiting)).rows[0]?.n === 0);
      await other.query('COMMIT');
      await other.end();
      return part;
    },
    close: () => store.close(),
  };
}

t.test('erases a delivery that returns from an endpoint while its user is erased', async (t) => {
  const { store, erase, close } = await scene('ready');
  t.match(await erase(), { inFlight: 0 });
  t.same(await backlogOf(store), { pending: 0, dead: 0 });
  await close();
});

t.test('counts a delivery that is claimed while its user is erased as in flight', async (t) => {
  const { store, erase, close } = await scene('claimed');
  t.match(await erase(), { inFlight: 1 });
  t.same(await backlogOf(store), { pending: 1, dead: 0 });
  await close();
});
