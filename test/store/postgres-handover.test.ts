import pg from 'pg';
import t from 'tap';
import { systemClock } from '../../src/clock.ts';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { openPostgresStore } from '../../src/store/postgres/store.ts';
import { accept, bodies, change, claim, message, StandingClock } from '../contract/store-fixture.ts';
import { startPostgres } from '../helpers/postgres.ts';

const server = await startPostgres();
const url = await server.database();
await migratePostgres(url);
const admin = new pg.Client(url);
await admin.connect();

/** Of each delivery, in order: whether it is claimed, and by which transaction it was written last. */
async function rows(): Promise<{ body: string; claimed: boolean; writer: string }[]> {
  const sql = 'SELECT body, state = 1 AS claimed, xmin::text AS writer FROM rollcall.delivery ORDER BY id';
  return (await admin.query(sql)).rows;
}

t.beforeEach(() => admin.query('DELETE FROM rollcall.delivery'));

const open = (clock = systemClock) => openPostgresStore({ url, maxQueued: 100, clock });

await t.test('what a process accepts while its worker waits is written once, claimed', async (t) => {
  const store = await open();
  const owner = await store.join(60_000);
  await claim(store, owner);
  await accept(store, message({ body: '"mine"' }), message({ body: '"elsewhere"', destinations: ['lake'] }));
  const written = await rows();
  t.same(
    written.map(({ claimed }) => claimed),
    [true, false],
    'only where the worker asked',
  );
  t.same(bodies(await claim(store, owner)), ['"mine"']);
  t.same(await rows(), written);
  await accept(store, change('k', { body: '"change"' }));
  await accept(store, message({ body: '"after"' }));
  const waiting = (await rows()).filter(({ claimed }) => !claimed).map(({ body }) => body);
  t.same(
    waiting.sort(),
    ['"after"', '"change"', '"elsewhere"'],
    'a membership change waits, and so what comes after it',
  );
  await store.close();
});

await t.test('nothing is handed over while something older waits, and never more than was asked for', async (t) => {
  const clock = new StandingClock();
  const store = await open(clock.ahead());
  const owner = await store.join(60_000);
  const claimed = async () => (await rows()).map((row) => row.claimed);
  await claim(store, owner, { limit: 2 });
  await accept(store, message({ body: '1' }));
  await accept(store, message({ body: '2' }), message({ body: '3' }));
  t.same(await claimed(), [true, true, false]);
  t.same(bodies(await claim(store, owner, { limit: 2 })), ['1', '2']);
  clock.move(1_000);
  await accept(store, message({ body: '4' }));
  t.same(await claimed(), [true, true, false, false], 'the worker took two a second, but the third waits');
  t.same(bodies(await claim(store, owner, { limit: 3 })), ['3', '4']);
  await accept(store, message({ body: '5' }));
  t.same(await claimed(), [true, true, true, true, true]);
  await store.close();
});

await t.test('a process that accepts and has no worker hands nothing over', async (t) => {
  const store = await open();
  await accept(store, message());
  t.equal((await rows())[0]?.claimed, false);
  await store.close();
});

await admin.end();
await server.stop();
