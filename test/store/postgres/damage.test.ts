import pg from 'pg';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/kernel/clock.ts';
import type { RollcallError } from '../../../src/kernel/errors.ts';
import { NO_EVENTS } from '../../../src/store/port.ts';
import { migratePostgres } from '../../../src/store/postgres/migrate.ts';
import { openPostgresStore } from '../../../src/store/postgres/store.ts';
import { accept, codeOf, message } from '../../contract/store-fixture.ts';
import { startPostgres } from '../../helpers/postgres.ts';

const server = await startPostgres();
t.teardown(() => server.stop());

/** A store, a connection beside it, and what the store reports. */
async function open(t: Test) {
  const url = await server.database();
  await migratePostgres(url);
  const client = new pg.Client(url);
  await client.connect();
  const damages: RollcallError[] = [];
  const events = { ...NO_EVENTS, onDamaged: (error: RollcallError) => void damages.push(error) };
  const store = await openPostgresStore({ url, maxQueued: 100, clock: systemClock, events });
  t.teardown(async () => {
    await store.close();
    await client.end();
  });
  /** Has every new delivery fail with this code, as the server would where a page is damaged. */
  const fail = async (code: string) => {
    await client.query(
      `CREATE OR REPLACE FUNCTION rollcall.fail() RETURNS trigger LANGUAGE plpgsql AS $$
       BEGIN RAISE EXCEPTION 'invalid page in block 7' USING ERRCODE = '${code}'; END $$`,
    );
    await client.query(
      'CREATE OR REPLACE TRIGGER fail BEFORE INSERT ON rollcall.delivery FOR EACH ROW EXECUTE FUNCTION rollcall.fail()',
    );
  };
  return { url, store, client, damages, fail };
}

for (const code of ['XX001', 'XX002']) {
  t.test(`Postgres: stops accepting after ${code}, and keeps reading`, async (t) => {
    const { store, damages, fail } = await open(t);
    await accept(store, message());
    await fail(code);
    t.equal(await codeOf(accept(store, message())), 'store_damaged');
    t.match(damages, [{ code: 'store_damaged', message: /invalid page in block 7.*restore a backup, or REINDEX/ }]);
    for (const work of [accept(store, message()), store.ping(), store.join(1_000)]) {
      t.equal(await codeOf(work), 'store_damaged');
    }
    t.match(await store.backlog(), [{ destination: 'crm', pending: 1, dead: 0 }]);
    t.equal(damages.length, 1, 'it is said once');
  });
}

t.test('Postgres: reports a full disk and a standby by their codes, and recovers', async (t) => {
  const { store, client, damages, fail } = await open(t);
  await fail('53100');
  t.equal(await codeOf(accept(store, message())), 'store_full');
  await fail('54000');
  t.equal(await codeOf(accept(store, message())), 'store_failed', 'what can never be written is not a full disk');
  await fail('25006');
  t.equal(await codeOf(accept(store, message())), 'store_read_only');
  await client.query('DROP TRIGGER fail ON rollcall.delivery');
  await accept(store, message());
  t.same(damages, []);
});

t.test('Postgres: the doctor finds an invalid index', async (t) => {
  const { store, client } = await open(t);
  t.equal(await store.check(true), null);
  await client.query("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'rollcall.run_key'::regclass");
  t.match(await store.check(true), /run_key is invalid/);
});
