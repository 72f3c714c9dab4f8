import pg from 'pg';
import t, { type Test } from 'tap';
import { type Clock, systemClock } from '../../../src/kernel/clock.ts';
import type { Store } from '../../../src/store/port.ts';
import { Database } from '../../../src/store/postgres/database.ts';
import { migratePostgres } from '../../../src/store/postgres/migrate.ts';
import { openPostgresStore } from '../../../src/store/postgres/store.ts';
import { type DatabaseProxy, startProxy } from '../../cluster/proxy.ts';
import {
  accept,
  backlogOf,
  bodies,
  change,
  claim,
  claimOne,
  codeOf,
  DELIVERED,
  message,
  REFUSED,
  retryAt,
  settle,
} from '../../contract/store-fixture.ts';
import { startFastPostgres } from '../../helpers/postgres.ts';
import { GROWING, LOOKS } from '../looks.ts';

const TTL = 20_000;
const server = await startFastPostgres();
const skip = server.pid === null ? 'the server is not ours to stop' : false;

async function open(t: Test, url: string, clock: Clock = systemClock): Promise<Store> {
  const store = await openPostgresStore({ url, maxQueued: 100_000, clock });
  t.teardown(() => store.close());
  return store;
}

/** Repeats what fails while the database is away, as workers and clients do. */
async function persist<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await work();
    } catch (error) {
      if (tries === 200) throw error;
    }
  }
}

await t.test('refuses to open a store with pending migrations, and says what to run', async (t) => {
  const url = await server.database();
  await t.rejects(openPostgresStore({ url, maxQueued: 1, clock: systemClock }), {
    code: 'store_outdated',
    message: /rollcall migrate/,
  });
  t.same(
    await Promise.all([migratePostgres(url), migratePostgres(url)]).then((both) => both.flat().sort()),
    [1],
    'two at once',
  );
  t.same(await migratePostgres(url), []);
  await open(t, url);
  const client = new pg.Client(url);
  await client.connect();
  await client.query('INSERT INTO rollcall.migration VALUES (999)');
  await client.end();
  await t.rejects(openPostgresStore({ url, maxQueued: 1, clock: systemClock }), {
    code: 'store_outdated',
    message: /newer/,
  });
});

await t.test(
  'continues automatically after a crash of the database, with all acknowledged data',
  { skip },
  async (t) => {
    const store = await open(t, await server.store());
    await accept(store, message());
    await server.halt();
    t.equal(await codeOf(accept(store, message())), 'store_failed');
    t.equal(await codeOf(store.ping()), 'store_failed');
    await server.resume();
    await persist(() => accept(store, message()));
    await server.crash();
    t.same(await persist(() => backlogOf(store)), { pending: 2, dead: 0 });
  },
);

/** Nobody else gets at a table until the returned function is called. */
async function lockTable(url: string, table: string): Promise<() => Promise<void>> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query(`BEGIN; LOCK TABLE rollcall.${table} IN ACCESS EXCLUSIVE MODE`);
  return () => client.end();
}

await t.test('fails a statement that takes too long as busy, without writes or effects on later ones', async (t) => {
  const url = await server.store();
  const store = await open(t, `${url}?statement_timeout=1000`);
  const owner = await store.join(TTL);
  await accept(store, message(), message());
  const held = await claim(store, owner, { limit: 1 });
  const unlock = await lockTable(url, 'delivery');
  const outcomes = await Promise.all([
    codeOf(accept(store, message())),
    codeOf(accept(store, change('k'))),
    codeOf(claim(store, owner)),
    codeOf(settle(store, owner, held, DELIVERED)),
  ]);
  t.same(outcomes, Array(4).fill('store_busy'));
  await unlock();
  t.same(await backlogOf(store), { pending: 2, dead: 0 });
  await settle(store, owner, held, DELIVERED);
  await accept(store, message(), change('k'));
  // Deliveries that a failed claim may have taken are given back.
  await store.rescue();
  t.equal((await claim(store, owner)).length, 3);
  t.same(await backlogOf(store), { pending: 3, dead: 0 });
});

/** A database in which a transaction loses its connection, as often as is asked for, before it commits. */
async function losing(t: Test, url: string, lose: (pid: number, watcher: pg.Client) => Promise<unknown>) {
  const watcher = new pg.Client(direct(new URL(url)));
  await watcher.connect();
  t.teardown(() => watcher.end());
  await watcher.query('CREATE TABLE note (text text)');
  const db = new Database({ url, clock: systemClock });
  t.teardown(() => db.close());
  const isOpen = async (pid: number) =>
    (await watcher.query('SELECT FROM pg_stat_activity WHERE pid = $1', [pid])).rowCount !== 0;
  return {
    async write(losses: number) {
      let tries = 0;
      await db.transaction(async ({ rows, run }) => {
        const [[pid] = [0]] = await rows<[number]>('SELECT pg_backend_pid()');
        tries += 1;
        await run('INSERT INTO note VALUES ($1)', [`try ${tries}`]);
        if (tries > losses) return;
        await lose(pid, watcher);
        while (await isOpen(pid));
        await rows('SELECT 1');
      });
    },
    notes: async () => (await watcher.query<{ text: string }>('SELECT text FROM note')).rows.map(({ text }) => text),
  };
}

await t.test('repeats a transaction that the server ended because it was idle', async (t) => {
  const url = `${await server.database()}?idle_in_transaction_session_timeout=50`;
  const { write, notes } = await losing(t, url, async () => {});
  await write(2);
  t.same(await notes(), ['try 3']);
  t.equal(await codeOf(write(Number.POSITIVE_INFINITY)), 'store_busy', 'and fails as busy, if it always does');
  await write(0);
});

await t.test('repeats a transaction that lost its connection before the commit', async (t) => {
  const { write, notes } = await losing(t, await server.database(), (pid, watcher) =>
    watcher.query('SELECT pg_terminate_backend($1)', [pid]),
  );
  await write(2);
  t.same(await notes(), ['try 3']);
  t.equal(await codeOf(write(Number.POSITIVE_INFINITY)), 'store_failed');
  const url = new URL(await server.database());
  const proxy = await startProxy(server.port);
  t.teardown(() => proxy.close());
  url.port = String(proxy.port);
  const cut = await losing(t, url.href, async () => proxy.cut());
  await cut.write(2);
  t.same(await cut.notes(), ['try 3'], 'also where nobody said why');
});

await t.test('does not repeat a transaction that lost its connection during the commit', async (t) => {
  const url = new URL(await server.database());
  const watcher = new pg.Client(url.href);
  await watcher.connect();
  t.teardown(() => watcher.end());
  await watcher.query(`CREATE TABLE note (text text);
    CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END';
    CREATE CONSTRAINT TRIGGER held AFTER INSERT ON note DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hold();
    SELECT pg_advisory_lock(1)`);
  const proxy = await startProxy(server.port);
  t.teardown(() => proxy.close());
  url.port = String(proxy.port);
  const db = new Database({ url: url.href, clock: systemClock });
  t.teardown(() => db.close());
  let tries = 0;
  const written = codeOf(
    db.transaction(async ({ run }) => {
      tries += 1;
      await run("INSERT INTO note VALUES ('once')");
    }),
  );
  const committing = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND query = 'COMMIT' AND wait_event_type = 'Lock'`;
  while ((await watcher.query(committing)).rowCount !== 1);
  proxy.cut();
  t.equal(await written, 'store_failed');
  t.equal(tries, 1);
  await watcher.query('SELECT pg_advisory_unlock(1)');
  while ((await watcher.query('SELECT FROM note')).rowCount !== 1);
});

await t.test('fails calls that wait too long for a free connection as busy', async (t) => {
  const url = await server.store();
  const store = await open(t, url);
  const owner = await store.join(TTL);
  const unlock = await lockTable(url, 'owner');
  const beats = Array.from({ length: 8 }, () => store.heartbeat(owner, TTL));
  t.equal(await codeOf(store.ping()), 'store_busy');
  await unlock();
  t.same(await Promise.all(beats), Array(8).fill(true));
  await store.ping();
});

await t.test('fails every call as busy while the server has no connection left', async (t) => {
  const url = new URL(await server.store());
  const admin = new pg.Client(url.href);
  await admin.connect();
  t.teardown(() => admin.end());
  // Limits do not hold for superusers.
  const name = url.pathname.slice(1);
  const role = `${name}_app`;
  await admin.query(`CREATE ROLE ${role} LOGIN; GRANT ALL ON SCHEMA rollcall TO ${role};
    GRANT ALL ON ALL TABLES IN SCHEMA rollcall TO ${role}; GRANT ALL ON ALL SEQUENCES IN SCHEMA rollcall TO ${role}`);
  url.username = role;
  const store = await open(t, url.href);
  await accept(store, message());
  await admin.query(`ALTER DATABASE ${name} CONNECTION LIMIT 0`);
  await admin.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${role}'`);
  // The first use may find the connection that was ended.
  await codeOf(store.ping());
  t.equal(await codeOf(accept(store, message())), 'store_busy');
  t.equal(await codeOf(store.join(TTL)), 'store_busy');
  await admin.query(`ALTER DATABASE ${name} CONNECTION LIMIT -1`);
  await accept(store, message());
  t.same(await backlogOf(store), { pending: 2, dead: 0 });
});

function direct(url: URL): string {
  return url.href.replace(`:${url.port}`, `:${server.port}`);
}

/** Cuts the connection while the server does `work`, which then takes effect without an answer. */
async function unanswered(
  t: Test,
  url: URL,
  work: (store: Store) => Promise<unknown>,
  store: Store,
  proxy: DatabaseProxy,
) {
  const locker = new pg.Client(direct(url));
  await locker.connect();
  await locker.query('BEGIN; LOCK TABLE rollcall.owner IN ACCESS EXCLUSIVE MODE');
  const lost = codeOf(work(store));
  const waiting = `SELECT count(*)::int AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock'`;
  while ((await locker.query<{ n: number }>(waiting)).rows[0]?.n === 0);
  proxy.cut();
  t.equal(await lost, 'store_failed');
  await locker.query('COMMIT');
  await locker.end();
}

await t.test('releases claims whose answer was lost with the connection', async (t) => {
  const url = new URL(await server.store());
  const proxy = await startProxy(server.port);
  t.teardown(() => proxy.close());
  const near = await open(t, url.href);
  url.port = String(proxy.port);
  const store = await open(t, url.href);
  const owner = await store.join(TTL);
  const cases: [string, (store: Store) => Promise<unknown>][] = [
    ['claimed', () => claim(store, owner)],
    [
      'accepted',
      () =>
        store.accept({ messages: [message(), message()], step: null, take: { owner, room: new Map([['crm', 2]]) } }),
    ],
  ];
  await accept(near, message(), message());
  for (const [done, work] of cases) {
    await unanswered(t, url, work, store, proxy);
    const other = await near.join(TTL);
    while ((await claimed(url)) < 2);
    t.same(bodies(await claim(near, other)), [], 'they are held by the process that does not know of them');
    t.equal(await persist(() => store.rescue()), 2, done);
    const claims = await claim(store, owner);
    t.equal(claims.length, 2);
    t.equal(await store.rescue(), 0, 'what is in hand is not taken away');
    await store.rescue();
    await settle(store, owner, claims, DELIVERED);
    await claim(store, owner);
  }
});

async function claimed(url: URL): Promise<number> {
  const client = new pg.Client(direct(url));
  await client.connect();
  const { rows } = await client.query<{ n: number }>(
    'SELECT count(*)::int AS n FROM rollcall.delivery WHERE state = 1',
  );
  await client.end();
  return rows[0]?.n ?? 0;
}

await t.test('works while the clocks of processes differ by hours', async (t) => {
  const url = await server.store();
  const HOUR = 3_600_000;
  const at = (skew: number): Clock => ({ ...systemClock, now: () => Date.now() + skew });
  const [ahead, behind] = [await open(t, url, at(HOUR)), await open(t, url, at(-HOUR))];
  const owner = await ahead.join(TTL);
  t.equal(await behind.rescue(), 0);
  t.ok(await ahead.takeLease('sync:a', TTL));
  t.equal(await behind.takeLease('sync:a', TTL), null);
  await accept(behind, message());
  const first = await claimOne(ahead, owner);
  const distance = (time: number, skew: number) => Math.abs(time - Date.now() - skew);
  t.ok(distance(first.acceptedAt, HOUR) < 5_000, 'times are told by the clock of whoever asks');
  await settle(ahead, owner, [first], { ...retryAt(Date.now() + HOUR), firstAt: Date.now() + HOUR });
  const again = await claimOne(behind, await behind.join(TTL));
  t.ok(distance(again.firstAt ?? 0, -HOUR) < 5_000);
});

await t.test('accepts a batch with an id that contains U+0000', async (t) => {
  const store = await open(t, await server.store());
  const odd = message({ userId: 'a\0b', messageId: 'm\0', body: '{"userId":"a\\u0000b"}' });
  await accept(store, odd, message(), change('k\0', { userId: '\0' }));
  const owner = await store.join(TTL);
  const claims = await claim(store, owner);
  t.equal(claims.length, 3);
  t.ok(bodies(claims).includes(odd.body));
  await settle(store, owner, claims, REFUSED);
  t.equal((await store.deadLetters({ userId: 'a\0b', limit: 10 })).length, 1);
  await store.erase({ users: ['a\0b'], anonymous: [] }, null, 'dead_letter:0');
  t.equal((await store.deadLetters({ limit: 10 })).length, 2);
});

await t.test('groups simultaneous accepts into a few transactions', async (t) => {
  const url = await server.store();
  const store = await open(t, url);
  const client = new pg.Client(url);
  await client.connect();
  const transactions = async () =>
    Number((await client.query('SELECT pg_current_xact_id()::text AS id')).rows[0]?.id ?? 0);
  const before = await transactions();
  await Promise.all(Array.from({ length: 200 }, () => accept(store, message())));
  const used = (await transactions()) - before;
  await client.end();
  t.ok(used < 20, `${used} transactions for 200 accepts`);
});

/** How often the queue's tables were scanned, and how many entries of their indexes were read, by sessions that have ended. */
async function reads(client: pg.Client): Promise<{ scans: number; read: number }> {
  await client.query('SELECT pg_stat_force_next_flush()');
  const { rows } = await client.query<{ scans: number; read: number }>(
    `SELECT sum(seq_scan)::int AS scans, sum(seq_tup_read + idx_tup_read)::int AS read FROM pg_stat_all_tables t
     JOIN (SELECT relid, sum(idx_tup_read)::int AS idx_tup_read FROM pg_stat_all_indexes GROUP BY relid) i USING (relid)
     WHERE schemaname = 'rollcall' AND relname IN ('delivery', 'dead_letter')`,
  );
  return rows[0] ?? { scans: -1, read: -1 };
}

await t.test('scans no table in everyday statements, however it is filled', async (t) => {
  const url = await server.store();
  const store = await open(t, url);
  const client = new pg.Client(url);
  await client.connect();
  await client.query(`INSERT INTO rollcall.delivery (due_at, accepted_at, tries, rank, state, type, destination, source, message_id, body)
    SELECT 0, 0, 0, 1, 0, 0, 'd' || n % 50, 's', n::text, '{}' FROM generate_series(1, 20000) AS n`);
  await client.query(
    `INSERT INTO rollcall.backlog SELECT 'd' || n, 0, 400, 0, 400, 0 FROM generate_series(0, 49) AS n`,
  );
  await client.query('VACUUM ANALYZE rollcall.delivery');
  const before = await reads(client);
  const owner = await store.join(TTL);
  for (let n = 0; n < 10; n += 1) {
    await accept(store, message({ destinations: [`d${n}`] }), change(`k${n}`, { destinations: [`d${n}`] }));
    const claims = await claim(store, owner, {
      destination: `d${n}`,
      limit: 20,
      order: n % 2 === 0 ? 'usual' : 'retries',
    });
    t.equal(claims.length, 20);
    await settle(store, owner, claims.slice(0, 10), DELIVERED);
    await settle(store, owner, claims.slice(10), retryAt(Date.now()));
    await store.expire(`d${n}`, 1, false, 10);
  }
  await store.close();
  const after = await reads(client);
  await client.end();
  t.equal(after.scans - before.scans, 0);
  t.ok(after.read - before.read < 3_000, `${after.read - before.read} index entries read for 200 deliveries`);
});

await t.test('scans no table in statements that were planned while the queue was empty', async (t) => {
  const url = await server.store();
  const store = await open(t, url);
  const client = new pg.Client(url);
  await client.connect();
  await client.query('VACUUM ANALYZE');
  const owner = await store.join(TTL);
  const pass = async (round: number) => {
    const changes = Array.from({ length: 10 }, (_, n) => change(`k${round}-${n}`));
    await accept(store, ...changes);
    const claims = await claim(store, owner, { limit: 10 });
    // Newer ones take the place of older ones, or wait for those in flight.
    await accept(store, ...changes.slice(0, 5).map(({ conflict }) => change(String(conflict))));
    await settle(store, owner, claims.slice(3), retryAt(Date.now()));
    await settle(store, owner, claims.slice(0, 3), DELIVERED);
    await settle(store, owner, await claim(store, owner, { limit: 10 }), REFUSED);
  };
  await pass(0);
  await client.query(`INSERT INTO rollcall.delivery (due_at, accepted_at, tries, rank, state, type, destination, source, message_id, conflict, body)
    SELECT 0, 0, 0, 1, 0, 0, 'crm', 's', n::text, 'full' || n, '{}' FROM generate_series(1, 20000) AS n`);
  await client.query(`INSERT INTO rollcall.dead_letter (id, accepted_at, last_at, tries, lane, type, destination, source, message_id, conflict, reason, body)
    SELECT -n, 0, 0, 0, 1, 0, 'crm', 's', n::text, 'dead' || n, 'refused', '{}' FROM generate_series(1, 20000) AS n`);
  const before = await reads(client);
  for (let round = 1; round <= 10; round += 1) await pass(round);
  await store.close();
  const after = await reads(client);
  await client.end();
  t.equal(after.scans - before.scans, 0);
  t.ok(after.read - before.read < 3_000, `${after.read - before.read} index entries read for 200 changes`);
});

await t.test('serves pages and metrics without scanning a growing table', async (t) => {
  const url = await server.database();
  await migratePostgres(url);
  const store = await open(t, url);
  const client = new pg.Client(url);
  await client.connect();
  const scans = async () => {
    const { rows } = await client.query<{ name: string; scans: number }>(
      `SELECT relname AS name, seq_scan::int AS scans FROM pg_stat_all_tables
       WHERE schemaname = 'rollcall' AND relname = ANY ($1) ORDER BY relname`,
      [GROWING],
    );
    return rows;
  };
  // A destination is known, so that it is looked up.
  await accept(store, message());
  // The session of the migration, which scanned them for their indexes, has handed its figures in.
  while ((await scans()).every(({ scans }) => scans === 0)) await new Promise((resolve) => setTimeout(resolve, 20));
  const before = await scans();
  t.equal(before.length, GROWING.length);
  for (const look of Object.values(LOOKS)) await look(store);
  // Its sessions hand in what they counted as they end.
  await store.close();
  t.same(await scans(), before);
  await client.end();
});

await server.stop();
