import pg from 'pg';
import t from 'tap';
import { systemClock } from '../../../src/kernel/clock.ts';
import { migratePostgres } from '../../../src/store/postgres/migrate.ts';
import { openPostgresStore } from '../../../src/store/postgres/store.ts';
import { bodies, message } from '../../contract/store-fixture.ts';
import { startFastPostgres } from '../../helpers/postgres.ts';

const server = await startFastPostgres();
const url = await server.database();
await migratePostgres(url);
const admin = new pg.Client(url);
await admin.connect();

/** Of each delivery, in order: whether it is claimed, and by which transaction it was written last. */
async function rows(): Promise<{ body: string; claimed: boolean; writer: string }[]> {
  const sql = 'SELECT body, state = 1 AS claimed, xmin::text AS writer FROM rollcall.delivery ORDER BY id';
  return (await admin.query(sql)).rows;
}

await t.test('writes deliveries that are claimed on accept once', async (t) => {
  const store = await openPostgresStore({ url, maxQueued: 100, clock: systemClock });
  const owner = await store.join(60_000);
  const messages = [message({ body: '"mine"' }), message({ body: '"elsewhere"', destinations: ['lake'] })];
  const { claims = [] } = await store.accept({ messages, step: null, take: { owner, room: new Map([['crm', 10]]) } });
  t.same(bodies(claims), ['"mine"']);
  const [mine, elsewhere] = await rows();
  t.equal(mine?.claimed, true);
  t.equal(elsewhere?.claimed, false);
  t.equal(mine?.writer, elsewhere?.writer, 'by the statement that accepted both');
  await store.close();
});

await admin.end();
await server.stop();
