import pg from 'pg';
import t from 'tap';
import { systemClock } from '../../src/kernel/clock.ts';
import { goOnRestored } from '../../src/store/copy/restored-postgres.ts';
import { Database } from '../../src/store/postgres/database.ts';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { openPostgresStore } from '../../src/store/postgres/store.ts';
import { postgresFixtures } from '../contract/postgres-fixture.ts';
import { storeContract } from '../contract/store.ts';
import { accept, claim, DELIVERED, message, settlement } from '../contract/store-fixture.ts';
import { noPgbouncer, startPgbouncer } from '../helpers/pgbouncer.ts';
import { startFastPostgres } from '../helpers/postgres.ts';

/** `npm run test:poolers` tests them all. */
const EVERY = process.env['POOLERS'] === 'all' ? 1 : 12;

if (noPgbouncer) {
  await t.test('works behind PgBouncer', { skip: noPgbouncer }, async () => undefined);
} else await behindPgbouncer();

async function behindPgbouncer(): Promise<void> {
  const server = await startFastPostgres();
  // Nothing may be waited for between two tests: the file would count as ended.
  const contracts = [];
  for (const [mode, sessions] of [['transaction', 3] as const, ['session', 40] as const]) {
    const pooler = await startPgbouncer(server.port, mode, sessions);
    const direct = await server.database();
    const migrated = await migratePostgres(pooler.through(direct));
    contracts.push({ mode, pooler, migrated, ...(await postgresFixtures(direct, pooler.through(direct))) });
  }
  t.same(
    contracts.map(({ migrated }) => migrated),
    [[1], [1]],
    'migrations come through',
  );
  for (const { mode, open } of contracts) await storeContract(t, `behind PgBouncer in ${mode} mode`, open, EVERY);

  await t.test('shares a session among processes in transaction mode, and leaves nothing in it', async (t) => {
    const pooler = await startPgbouncer(server.port, 'transaction', 1);
    t.teardown(() => pooler.stop());
    const url = pooler.through(await server.database());
    await migratePostgres(url);
    const open = () => openPostgresStore({ url: `${url}?statement_timeout=9000`, maxQueued: 100, clock: systemClock });
    const stores = await Promise.all([open(), open(), open()]);
    const owners = await Promise.all(stores.map((store) => store.join(60_000)));
    let delivered = 0;
    for (let round = 0; round < 5; round += 1) {
      await Promise.all(stores.map((store, n) => accept(store, message({ messageId: `m${round}-${n}` }))));
      for (const [n, store] of stores.entries()) {
        const owner = owners[n] as number;
        const claimed = await claim(store, owner, { destination: 'crm', limit: 10 });
        await store.settle(
          owner,
          claimed.map((one) => settlement(one, DELIVERED)),
        );
        delivered += claimed.length;
      }
    }
    t.equal(delivered, 15);
    const guest = new pg.Client(url);
    await guest.connect();
    const { rows } = await guest.query(
      `SELECT name, setting FROM pg_settings WHERE source = 'session' AND name <> 'application_name' AND name <> 'client_encoding'
       UNION ALL SELECT 'statement', name FROM pg_prepared_statements`,
    );
    t.same(rows, []);
    const db = new Database({ url, clock: systemClock });
    const settings = `SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings
      WHERE name IN ('synchronous_commit', 'enable_seqscan', 'statement_timeout', 'plan_cache_mode')`;
    const within =
      'enable_seqscan=off plan_cache_mode=force_generic_plan statement_timeout=10000 synchronous_commit=on';
    t.same(await db.rows(settings), [[within]], 'but each transaction has the settings');
    await Promise.all([...stores.map((store) => store.close()), db.close(), guest.end()]);
  });

  await t.test("uses the store's kind of transactions behind a pooler, whatever the database's default", async (t) => {
    const pooler = await startPgbouncer(server.port, 'transaction');
    t.teardown(() => pooler.stop());
    const direct = await server.database();
    const admin = new pg.Client(direct);
    await admin.connect();
    await admin.query(
      `ALTER DATABASE ${new URL(direct).pathname.slice(1)} SET default_transaction_isolation = serializable`,
    );
    await admin.end();
    const db = new Database({ url: pooler.through(direct), clock: systemClock });
    t.teardown(() => db.close());
    t.same(await db.rows('SHOW transaction_isolation'), [['read committed']]);
  });

  await t.test('applies a limit in the URL behind a pooler too', async (t) => {
    const pooler = await startPgbouncer(server.port, 'transaction');
    t.teardown(() => pooler.stop());
    const url = pooler.through(await server.database());
    const db = new Database({ url: `${url}?statement_timeout=50`, clock: systemClock });
    t.teardown(() => db.close());
    await t.rejects(db.rows('SELECT pg_sleep(60)'), { code: 'store_busy' });
    const patient = new Database({ url, clock: systemClock, patient: true });
    t.teardown(() => patient.close());
    t.same(await patient.rows('SHOW statement_timeout'), [['0']]);
  });

  await t.test('continues a restored store through a pooler', async (t) => {
    const pooler = await startPgbouncer(server.port, 'transaction');
    t.teardown(() => pooler.stop());
    const url = pooler.through(await server.database());
    await migratePostgres(url);
    await goOnRestored(url, () => {});
    const store = await openPostgresStore({ url, maxQueued: 100, clock: systemClock });
    await accept(store, message());
    const [claimed] = await claim(store, await store.join(60_000));
    t.ok(Number.parseInt(claimed?.id.split('-').at(-1) ?? '', 36) > 2 ** 40);
    await store.scrub();
    await store.close();
  });

  await t.test("reports a pooler that can't carry transactions, or settings in `store`", async (t) => {
    const statements = await startPgbouncer(server.port, 'statement');
    const transactions = await startPgbouncer(server.port, 'transaction');
    t.teardown(() => Promise.all([statements.stop(), transactions.stop()]));
    const direct = await server.database();
    const open = (url: string) => openPostgresStore({ url, maxQueued: 100, clock: systemClock });
    await t.rejects(open(statements.through(direct)), { code: 'store_failed', message: /pool_mode = transaction/ });
    await t.rejects(open(`${transactions.through(direct)}?options=-c%20jit%3Doff`), {
      code: 'store_failed',
      message: /Remove it from `store`/,
    });
  });

  await Promise.all(contracts.map(({ end, pooler }) => end().then(() => pooler.stop())));
  await server.stop();
}
