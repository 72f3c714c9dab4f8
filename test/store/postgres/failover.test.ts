import pg from 'pg';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/kernel/clock.ts';
import { openPostgresStore } from '../../../src/store/postgres/store.ts';
import { startProxy } from '../../cluster/proxy.ts';
import {
  accept,
  backlogOf,
  change,
  claim,
  codeOf,
  DELIVERED,
  message,
  settlement,
} from '../../contract/store-fixture.ts';
import { startFastPostgres } from '../../helpers/postgres.ts';

/* A failover as one process sees it. `npm run test:ha` has real ones. */

const server = await startFastPostgres();
t.teardown(() => server.stop());
const notOurs = server.pid === null ? 'the server of TEST_DATABASE_URL is not ours to change' : false;

async function scene(t: Test) {
  const direct = await server.store();
  const admin = new pg.Client(direct);
  await admin.connect();
  const proxy = await startProxy(server.port);
  const url = new URL(direct);
  url.port = String(proxy.port);
  const store = await openPostgresStore({ url: url.href, maxQueued: 100, clock: systemClock });
  t.teardown(async () => {
    await store.close();
    await proxy.close();
    await admin.end();
  });
  const waiting = async (count = 1) => {
    const { rows } = await admin.query(
      `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    );
    return rows.length >= count;
  };
  const endSessions = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`;
  return { admin, store, proxy, waiting, endSessions, name: url.pathname.slice(1), direct };
}

t.test('25006: reports a server that accepts no writes, without retrying for ever', { skip: notOurs }, async (t) => {
  const { admin, store, name, endSessions } = await scene(t);
  await admin.query(`ALTER DATABASE ${name} SET default_transaction_read_only = on`);
  await admin.query(endSessions);
  await codeOf(store.ping());
  t.equal(await codeOf(accept(store, message())), 'store_read_only');
  t.equal(await codeOf(accept(store, change('k'))), 'store_read_only');
  await store.backlog();
});

t.test('57P01: replaces sessions that the server ends, idle or at work', async (t) => {
  const { admin, store, waiting, endSessions, direct } = await scene(t);
  await Promise.all(Array.from({ length: 20 }, (_, n) => accept(store, change(`k${n}`))));
  await admin.query(endSessions);
  // A session may be used before it is known to be over. Each is so once, and no more than these were open.
  let failed = 0;
  while ((await codeOf(accept(store, message({ messageId: 'after' })))) === 'store_failed') failed += 1;
  t.ok(failed <= 8, `${failed} of the sessions failed once`);
  const locker = new pg.Client(direct);
  await locker.connect();
  await locker.query('BEGIN; LOCK TABLE rollcall.delivery IN ACCESS EXCLUSIVE MODE');
  const ended = codeOf(accept(store, message({ messageId: 'again' })));
  while (!(await waiting()));
  await locker.query(endSessions.replace('WHERE', `WHERE wait_event_type = 'Lock' AND`));
  t.equal(await ended, 'store_failed');
  await locker.query('COMMIT');
  await locker.end();
  await accept(store, message({ messageId: 'again' }));
  t.same(await backlogOf(store), { pending: 22, dead: 0 });
});

t.test('performs a commit of unknown outcome once when it is sent again', async (t) => {
  const { admin, store, proxy, waiting, direct } = await scene(t);
  const owner = await store.join(60_000);
  await accept(store, message({ messageId: 'settled' }));
  const claims = await claim(store, owner);
  /** Done by the database, while nobody is there any more to hear of it. */
  const unheard = async (work: () => Promise<unknown>, table: string) => {
    const locker = new pg.Client(direct);
    await locker.connect();
    await locker.query(`BEGIN; LOCK TABLE rollcall.${table} IN ACCESS EXCLUSIVE MODE`);
    const lost = codeOf(work());
    while (!(await waiting()));
    proxy.cut();
    t.equal(await lost, 'store_failed');
    await locker.query('COMMIT');
    await locker.end();
    // Until the session without a client has done it.
    await admin.query(`BEGIN; LOCK TABLE rollcall.${table} IN ACCESS EXCLUSIVE MODE; COMMIT`);
  };
  const plain = () => accept(store, message({ messageId: 'plain' }));
  await unheard(plain, 'delivery');
  while ((await codeOf(plain())) === 'store_failed');
  t.same(await backlogOf(store), { pending: 2, dead: 0 }, 'messages by their ids');
  const settle = () =>
    store.settle(
      owner,
      claims.map((one) => settlement(one, DELIVERED)),
    );
  await unheard(settle, 'attempt');
  while ((await codeOf(settle())) === 'store_failed');
  t.same(await backlogOf(store), { pending: 1, dead: 0 }, 'what was delivered once');
});

t.test('repeats a transaction whose connection was cut before its commit, and commits it once', async (t) => {
  const { store, proxy, waiting, direct } = await scene(t);
  const locker = new pg.Client(direct);
  await locker.connect();
  await locker.query('BEGIN; LOCK TABLE rollcall.delivery IN ACCESS EXCLUSIVE MODE');
  const accepted = accept(store, change('k', { messageId: 'change' }));
  while (!(await waiting(1)));
  proxy.cut();
  // The session without a client waits, too, and then does not commit.
  while (!(await waiting(2)));
  await locker.query('COMMIT');
  await locker.end();
  t.match(await accepted, { accepted: 1, duplicates: 0 });
  t.same(await backlogOf(store), { pending: 1, dead: 0 });
});

// The last one: the server stays as it is left here.
t.test('25006: drops sessions with a former primary and does the work on new ones', { skip: notOurs }, async (t) => {
  const { admin, store, name } = await scene(t);
  const owner = await store.join(60_000);
  // As many sessions as there can be.
  await Promise.all(Array.from({ length: 40 }, (_, n) => accept(store, change(`k${n}`, { messageId: `before${n}` }))));
  await admin.query('ALTER SYSTEM SET default_transaction_read_only = on');
  // Whoever connects from now on gets one that takes writes.
  await admin.query(
    `SET default_transaction_read_only = off; ALTER DATABASE ${name} SET default_transaction_read_only = off`,
  );
  await admin.query('SELECT pg_reload_conf()');
  await Promise.all([
    ...Array.from({ length: 20 }, (_, n) => accept(store, message({ messageId: `plain${n}` }))),
    ...Array.from({ length: 20 }, (_, n) => accept(store, change(`c${n}`, { messageId: `change${n}` }))),
    store.heartbeat(owner, 60_000),
  ]);
  t.same(await backlogOf(store), { pending: 80, dead: 0 });
});
