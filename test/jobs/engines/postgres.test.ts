import pg from 'pg';
import t, { type Test } from 'tap';
import { openPostgres } from '../../../jobs/engines/postgres/postgres.ts';
import { type EngineFixture, engineContract, request, settle, told, usersSql } from '../../contract/engine.ts';
import { liesInOrder } from '../../contract/first-order.ts';
import { readsLittleOfLongValues } from '../../contract/long-values.ts';
import { ManualClock } from '../../helpers/clock.ts';
import { startFastPostgres } from '../../helpers/postgres.ts';
import { until } from '../../helpers/until.ts';

const server = await startFastPostgres();
t.teardown(() => server.stop());

const notOurs = server.pid === null ? 'the server of TEST_DATABASE_URL is not ours to stop' : false;

async function open(t: Test): Promise<EngineFixture> {
  const url = await server.database();
  const reopen = async (options: { readOnly?: boolean } = {}) => {
    const engine = await openPostgres({ type: 'postgres', url }, options);
    t.teardown(() => engine.close().catch(() => {}));
    return engine;
  };
  return { engine: await reopen(), reopen };
}

engineContract(t, open);
liesInOrder(t, open);
readsLittleOfLongValues(t, open);

t.test('creates the tables of a database once for many first sessions', async (t) => {
  const { reopen } = await open(t);
  const engines = await Promise.all(Array.from({ length: 8 }, () => reopen()));
  await Promise.all(engines.map((engine, n) => settle(engine, { key: `k${n}`, sql: usersSql('a') })));
  t.same(await engines[0]?.snapshot('k7'), { version: 1, members: 1 });
});

t.test('compares ids by their bytes, whatever their collation', async (t) => {
  const url = await server.database();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
    CREATE TABLE people (user_id text COLLATE nocase, plan text COLLATE nocase);
    INSERT INTO people VALUES ('a', 'pro'), ('A', 'Pro')`);
  await client.end();
  const engine = await openPostgres({ type: 'postgres', url });
  t.teardown(() => engine.close());
  for (let round = 0; round < 2; round += 1) {
    await settle(engine, { sql: 'select user_id from people' });
    t.match(await engine.snapshot('club'), { members: 2 });
    await settle(engine, { key: 'plan', kind: 'trait', sql: 'select user_id, plan as value from people' });
    t.match(await engine.snapshot('plan'), { members: 2 });
  }
});

t.test('keeps a session of look-ups open for the next one', async (t) => {
  const url = await server.database();
  await (await openPostgres({ type: 'postgres', url })).close();
  const clock = new ManualClock();
  const stop = new AbortController();
  const look = async (signal = stop.signal) => {
    const engine = await openPostgres(
      { type: 'postgres', url },
      { clock, readOnly: true, signal, file: { stays: true } },
    );
    t.same((await engine.everywhere?.(['club'], 'a'))?.get('club')?.version, 0);
    return engine;
  };
  const admin = new pg.Client(url);
  await admin.connect();
  t.teardown(() => admin.end());
  const sessions = async () => {
    const { rows } = await admin.query(
      'SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
    );
    return rows.map(({ pid }) => Number(pid));
  };
  const [one, other] = [await look(), await look()];
  await one.close();
  await other.close();
  const kept = await sessions();
  t.equal(kept.length, 1, 'of those at once, one stays');
  await (await look()).close();
  t.same(await sessions(), kept);
  clock.advance(10_000);
  await until(async () => (await sessions()).length === 0);
  await (await look()).close();
  const [pid] = await sessions();
  await admin.query('SELECT pg_terminate_backend($1)', [pid]);
  await until(async () => (await sessions()).length === 0);
  await until(async () => (await look().catch(() => null))?.close().then(() => true) ?? false);
  t.equal((await sessions()).length, 1, 'one that the server ended is no longer used');
  const caller = new AbortController();
  const engine = await look(caller.signal);
  caller.abort();
  await engine.close();
  await until(async () => (await sessions()).length === 0);
  await (await look()).close();
  stop.abort();
  await until(async () => (await sessions()).length === 0);
});

t.test("cancels a reader's query once its signal aborts, whatever it asks", async (t) => {
  const url = await server.database();
  const engine = await openPostgres({ type: 'postgres', url });
  t.teardown(() => engine.close());
  await settle(engine, { sql: usersSql('a') });
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  t.teardown(() => admin.end());
  await admin.query('BEGIN; LOCK TABLE rollcall.snapshots');
  const stop = new AbortController();
  const reader = await openPostgres({ type: 'postgres', url }, { readOnly: true, signal: stop.signal });
  t.teardown(() => reader.close());
  const asked = reader.memberPage('club', '', 10);
  const waiting = async () => {
    const { rows } = await admin.query(
      "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'rollcall.snapshots'::regclass",
    );
    return rows.length;
  };
  await until(async () => (await waiting()) === 1);
  stop.abort(new Error('enough'));
  await t.rejects(asked, { message: 'enough' });
  t.equal(await waiting(), 0);
  await t.rejects(reader.snapshot('club'), { message: 'enough' });
});

t.test('reads freshness from text with an offset', async (t) => {
  const { engine } = await open(t);
  const staged = await engine.stage(
    request({ sql: "select 'a' as user_id, '2026-03-01T12:30:00+02:00' as seen", freshness: 'seen' }),
  );
  t.equal(staged.newest, Date.parse('2026-03-01T10:30:00Z'));
});

t.test('reports a database that does not answer as unreachable', async (t) => {
  const url = 'postgres://rollcall:secret@127.0.0.1:1/nothing';
  await t.rejects(openPostgres({ type: 'postgres', url }), { code: 'engine_unreachable', message: /127\.0\.0\.1:1/ });
  await openPostgres({ type: 'postgres', url }).catch(({ message }) => t.notMatch(message, /secret/));
});

t.test("uses an administrator's schema if the user may not create one", async (t) => {
  const url = new URL(await server.database());
  const admin = new pg.Client({ connectionString: url.href });
  await admin.connect();
  t.teardown(() => admin.end());
  await admin.query('CREATE ROLE analyst LOGIN');
  url.username = 'analyst';
  const engine = await openPostgres({ type: 'postgres', url: url.href });
  t.teardown(() => engine.close());
  const advice = /analyst create tables .* CREATE SCHEMA rollcall AUTHORIZATION "analyst"/;
  t.match(await engine.examine?.(1), [{ state: 'failed', message: advice }, { state: 'ok' }]);
  await admin.query('CREATE SCHEMA rollcall AUTHORIZATION analyst');
  t.match(await engine.examine?.(1), [{ state: 'ok', message: /^PostgreSQL \d+\S*.*, \d+ connections free$/ }]);
  await settle(engine, { sql: usersSql('a') });
  t.same(await engine.snapshot('club'), { version: 1, members: 1 });
});

t.test('overrides a serializable default isolation level', async (t) => {
  const url = await server.database();
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  t.teardown(() => admin.end());
  await admin.query(
    `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET default_transaction_isolation = serializable`,
  );
  const engine = await openPostgres({ type: 'postgres', url });
  t.teardown(() => engine.close());
  const { plan } = await engine.stage(request({ sql: `select current_setting('transaction_isolation') as user_id` }));
  t.same((await engine.changes(plan, 0, 1)).userIds, ['read committed']);
});

t.test('overrides database settings that would change SQL or values', async (t) => {
  const url = await server.database();
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  t.teardown(() => admin.end());
  const name = new URL(url).pathname.slice(1);
  const settings = ['standard_conforming_strings = off', 'quote_all_identifiers = on', 'IntervalStyle = sql_standard'];
  for (const setting of settings) await admin.query(`ALTER DATABASE ${name} SET ${setting}`);
  const engine = await openPostgres({ type: 'postgres', url });
  t.teardown(() => engine.close());
  const sql = `select 'a\\' as user_id, ';\\t' as text, interval '1 day 2 hours' as long`;
  const { plan } = await engine.stage(request({ kind: 'trait', sql }));
  t.same(told(await engine.changes(plan, 0, 1)), [['a\\', { text: ';\\t', long: '1 day 02:00:00' }]]);
});

t.test('reports problems of a server that would stop runs', async (t) => {
  const { engine, reopen } = await open(t);
  t.match(await engine.examine?.(1_000), [{ state: 'warning', message: /\d+ connections free, .* up to 1000/ }, {}]);
  await settle(engine, { sql: usersSql('a') });
  const admin = new pg.Client({ connectionString: await server.database() });
  await admin.connect();
  t.teardown(() => admin.end());
  await admin.query('ALTER ROLE rollcall SET default_transaction_read_only = on');
  t.teardown(async () => {
    await admin.query('BEGIN READ WRITE; ALTER ROLE rollcall RESET default_transaction_read_only; COMMIT');
  });
  const reader = await reopen({ readOnly: true });
  t.match(await reader.examine?.(1), [{ state: 'failed', message: /write \(default_transaction_read_only\)/ }, {}]);
});

t.test('keeps plan and snapshot if the server goes down between stage and commit', { skip: notOurs }, async (t) => {
  const { engine, reopen } = await open(t);
  await settle(engine, { sql: usersSql('a', 'b') });
  const { plan } = await engine.stage(request({ toVersion: 2, sql: usersSql('b', 'c', 'd') }));
  await server.halt();
  await t.rejects(engine.commit(plan), { code: 'engine_unreachable' });
  await server.resume();
  const again = await reopen();
  t.same(await again.snapshot('club'), { version: 1, members: 2 });
  await again.commit(plan);
  t.same(await again.snapshot('club'), { version: 2, members: 3 });
});

t.test('blames a full disk on the engine, not on the SQL', async (t) => {
  const url = new URL(await server.database());
  const client = new pg.Client({ connectionString: url.href });
  await client.connect();
  await client.query(`CREATE FUNCTION fill() RETURNS text LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$`);
  await client.end();
  const full = await openPostgres({ type: 'postgres', url: url.href });
  t.teardown(() => full.close());
  await settle(full, { sql: usersSql('a') });
  await t.rejects(full.stage(request({ toVersion: 2, sql: 'select fill() as user_id' })), { code: 'engine_failed' });
  t.same(await full.snapshot('club'), { version: 1, members: 1 });
});

t.test('reports a connection that breaks during a run, and continues in the next run', async (t) => {
  const { engine, reopen } = await open(t);
  await settle(engine, { sql: usersSql('a') });
  const other = await reopen();
  const sql = 'select 1 as user_id from (select pg_terminate_backend(pg_backend_pid())) as ended';
  await t.rejects(other.stage(request({ toVersion: 2, sql })), { code: 'engine_unreachable' });
  t.match(await engine.stage(request({ toVersion: 2, sql: usersSql('a', 'b') })), { entered: 1, before: 1 });
});

t.test('cancels SQL even if the server takes no more connections', async (t) => {
  const url = new URL(await server.database());
  const admin = new pg.Client({ connectionString: url.href });
  await admin.connect();
  t.teardown(() => admin.end());
  await admin.query('CREATE ROLE alone LOGIN CONNECTION LIMIT 1; CREATE SCHEMA rollcall AUTHORIZATION alone');
  url.username = 'alone';
  const engine = await openPostgres({ type: 'postgres', url: url.href });
  t.teardown(() => engine.close());
  await engine.snapshot('club');
  const stop = new AbortController();
  const sql = `select 'u' as user_id from (select pg_sleep(600)) as slept`;
  const staging = engine.stage(request({ sql, signal: stop.signal }));
  for (let sleeps = 0; sleeps === 0; ) {
    const { rowCount } = await admin.query(
      `SELECT 1 FROM pg_stat_activity WHERE usename = 'alone' AND wait_event = 'PgSleep'`,
    );
    sleeps = rowCount ?? 0;
  }
  stop.abort(new Error('enough'));
  await t.rejects(staging, { message: 'enough' });
  t.match(await engine.stage(request({ sql: usersSql('a') })), { total: 1 }, 'and the session goes on');
});
