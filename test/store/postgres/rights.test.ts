import pg from 'pg';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/kernel/clock.ts';
import type { Store } from '../../../src/store/port.ts';
import { migratePostgres } from '../../../src/store/postgres/migrate.ts';
import { openPostgresStore } from '../../../src/store/postgres/store.ts';
import { accept, message } from '../../contract/store-fixture.ts';
import { freePort } from '../../helpers/free-port.ts';
import { startFastPostgres } from '../../helpers/postgres.ts';

const server = await startFastPostgres();
t.teardown(() => server.stop());

/** What is in the way, by `rollcall doctor`. */
const failures = async (store: Store) =>
  (await store.examine()).flatMap(({ state, message }) => (state === 'failed' ? message : []));

async function open(t: Test, url: string) {
  const store = await openPostgresStore({ url, maxQueued: 100, clock: systemClock });
  t.teardown(() => store.close());
  return store;
}

/** An empty database, a session of its administrator, and the URL of a user who has no rights in it. */
async function prepare(t: Test, user: string) {
  const url = await server.database();
  const admin = new pg.Client(url);
  await admin.connect();
  t.teardown(() => admin.end());
  await admin.query(`CREATE ROLE ${user} LOGIN`);
  const own = new URL(url);
  own.username = user;
  return { url, admin, own: own.href };
}

t.test('uses schemas that an administrator made if the user may not create any', async (t) => {
  const { admin, own } = await prepare(t, 'clerk');
  await t.rejects(migratePostgres(own), {
    code: 'store_failed',
    message: /must own the schemas rollcall and rollcall_events/,
  });
  await admin.query('CREATE SCHEMA rollcall AUTHORIZATION clerk; CREATE SCHEMA rollcall_events AUTHORIZATION clerk');
  await migratePostgres(own);
  const store = await open(t, own);
  t.match(await accept(store, message()), { accepted: 1 });
  t.same(await failures(store), []);
});

t.test('names the owner of the tables to a user who may write them but owns none', async (t) => {
  const { url, admin, own } = await prepare(t, 'guest');
  await migratePostgres(url);
  await t.rejects(open(t, own), { code: 'store_failed', message: /must own the schemas/ });
  await admin.query(`GRANT USAGE ON SCHEMA rollcall TO guest; GRANT ALL ON ALL TABLES IN SCHEMA rollcall TO guest`);
  const store = await open(t, own);
  t.match(await failures(store), [
    /belong to rollcall, .* GRANT "rollcall" TO "guest"/,
    /GRANT USAGE, CREATE ON SCHEMA rollcall TO "guest"/,
  ]);
  await admin.query('GRANT rollcall TO guest');
  t.same(await failures(store), []);
});

t.test('says what to check if there is no database', async (t) => {
  const url = `postgres://rollcall@127.0.0.1:${await freePort()}/rollcall`;
  await t.rejects(open(t, url), { code: 'store_failed', message: /Nothing listens there: start the database/ });
});

t.test("refuses a database whose encoding can't hold every message, however it was made", async (t) => {
  const { url, admin } = await prepare(t, 'latin');
  await admin.query(`CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0`);
  const narrow = new URL('/latin', url).href;
  const refusal = { code: 'store_failed', message: /encoding is LATIN1, and has to be UTF8/ };
  await t.rejects(migratePostgres(narrow), refusal);
  await t.rejects(open(t, narrow), refusal);
});

t.test('lets a migration take as long as it needs, whatever limit the URL sets', async (t) => {
  const { url } = await prepare(t, 'hasty');
  t.same(await migratePostgres(`${url}?statement_timeout=1`), [1]);
});

t.test('counts free connections by the limits of the database and of the user too', async (t) => {
  const { url, admin, own } = await prepare(t, 'limited');
  await migratePostgres(url);
  await admin.query('GRANT rollcall TO limited');
  const store = await open(t, own);
  const told = async () => (await store.examine()).map(({ message }) => message);
  t.notMatch((await told()).join(), /has \d+ connections free/);
  await admin.query('ALTER ROLE limited CONNECTION LIMIT 3');
  t.match((await told()).join(), /has 2 connections free.* CONNECTION LIMIT of the database or of limited/);
  await admin.query(`ALTER DATABASE ${new URL(url).pathname.slice(1)} CONNECTION LIMIT 3`);
  t.match((await told()).join(), /has 1 connections free/, 'the administrator has one of them');
});

t.test('verifies the server in every mode of TLS, without a warning from the driver', async (t) => {
  const { url } = await prepare(t, 'careful');
  const warnings: Error[] = [];
  const hear = (warning: Error) => void warnings.push(warning);
  process.on('warning', hear);
  t.teardown(() => process.off('warning', hear));
  for (const mode of ['prefer', 'require', 'verify-ca', 'verify-full'])
    await t.rejects(open(t, `${url}?sslmode=${mode}`), { message: /does not support SSL/ });
  t.same(warnings, []);
});
