import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import pg from 'pg';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/kernel/clock.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import { LastWrite } from '../../src/store/last-write.ts';
import type { Store } from '../../src/store/port.ts';
import { openPostgresStore } from '../../src/store/postgres/store.ts';
import { openSqliteStore } from '../../src/store/sqlite/store.ts';
import { accept, codeOf, message } from '../contract/store-fixture.ts';
import { ManualClock } from '../helpers/clock.ts';
import { startFastPostgres } from '../helpers/postgres.ts';
import { until } from '../helpers/until.ts';

/** A store whose reads succeed is not ready while its writes fail, and is again once they could succeed. */
async function isReadyAfterRepair(t: Test, store: Store, fail: () => Promise<void>, repair: () => Promise<void>) {
  await accept(store, message());
  t.equal(await codeOf(store.ping()), null);
  await fail();
  const code = await codeOf(accept(store, message()));
  t.match(code, /^store_/);
  t.equal(await codeOf(store.ping()), code);
  t.ok(await store.backlog(), 'it can still be read');
  await repair();
  // Nothing but the store itself writes now.
  await until(async () => (await codeOf(store.ping())) === null);
}

t.test('says of a SQLite store whose writes fail that it is not ready', async (t) => {
  const path = join(t.testdir({}), 'a.db');
  const store = await openSqliteStore({ path, maxQueued: 100, clock: systemClock });
  t.teardown(() => store.close());
  const other = new DatabaseSync(path);
  t.teardown(() => other.close());
  const on = (table: string) =>
    `CREATE TRIGGER broken_${table} BEFORE INSERT ON ${table} BEGIN SELECT RAISE(ABORT, 'broken'); END`;
  await isReadyAfterRepair(
    t,
    store,
    async () => other.exec(`${on('delivery')}; ${on('meta')}`),
    async () => other.exec('DROP TRIGGER broken_delivery; DROP TRIGGER broken_meta'),
  );
});

t.test('says of a Postgres store whose writes fail that it is not ready', async (t) => {
  const server = await startFastPostgres();
  t.teardown(() => server.stop());
  const url = await server.store();
  const store = await openPostgresStore({ url, maxQueued: 100, clock: systemClock });
  t.teardown(() => store.close());
  const admin = new pg.Client(url);
  await admin.connect();
  t.teardown(() => admin.end());
  const broken = `CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$`;
  const on = (table: string) => `CREATE TRIGGER broken BEFORE INSERT ON rollcall.${table} EXECUTE FUNCTION broken()`;
  await isReadyAfterRepair(
    t,
    store,
    async () => void (await admin.query(`${broken}; ${on('delivery')}; ${on('meta')}`)),
    async () => void (await admin.query('DROP FUNCTION broken CASCADE')),
  );
});

t.test('tries a write each second after a failed one, until one succeeds', async (t) => {
  const clock = new ManualClock();
  const pass = async (ms: number) => {
    clock.advance(ms);
    await new Promise<void>((resolve) => setImmediate(resolve));
  };
  const full = new RollcallError('store_full', 'full');
  let tries = 0;
  let room = false;
  const write = async () => {
    if (!room) throw full;
  };
  const lastWrite = new LastWrite(clock, () => {
    tries += 1;
    return write();
  });
  await codeOf(lastWrite.of(Promise.reject(new RollcallError('fence_lost', 'another has it'))));
  t.doesNotThrow(() => lastWrite.check(), 'a refusal is no failure');
  await codeOf(lastWrite.of(write()));
  await codeOf(lastWrite.of(write()));
  t.throws(() => lastWrite.check(), full);
  await lastWrite.of(Promise.resolve(), false);
  t.throws(() => lastWrite.check(), full, 'a small write proves nothing');
  for (let second = 1; second <= 3; second += 1) await pass(1_000);
  t.equal(tries, 3);
  t.throws(() => lastWrite.check(), full);
  room = true;
  await pass(1_000);
  t.doesNotThrow(() => lastWrite.check());
  await pass(5_000);
  t.equal(tries, 4);
});
