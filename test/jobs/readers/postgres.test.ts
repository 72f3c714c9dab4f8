import pg from 'pg';
import t, { type Test } from 'tap';
import { openPostgres } from '../../../jobs/engines/postgres/postgres.ts';
import { openPostgresReader } from '../../../jobs/readers/postgres.ts';
import { engineContract } from '../../contract/engine.ts';
import { readerContract } from '../../contract/reader.ts';
import { startPostgres, startStandby } from '../../helpers/postgres.ts';
import { until } from '../../helpers/until.ts';
import { neverReadsLess } from './cuts.ts';
import { readAll, sizeOf } from './rows.ts';

const MANY = 'select n as user_id from generate_series(1, 20000) as numbers (n)';
const server = await startPostgres(['wal_level = replica', 'max_wal_senders = 4', 'fsync = off', 'autovacuum = off']);
t.teardown(() => server.stop());
const skip = server.pid === null ? 'the server of TEST_DATABASE_URL is not ours' : false;
const admin = await server.database();
const client = new pg.Client({ connectionString: admin });
await client.connect();
t.teardown(() => client.end());
await client.query(`
  REVOKE CREATE, TEMPORARY ON DATABASE ${client.database} FROM PUBLIC;
  CREATE ROLE may_select LOGIN;
  ALTER ROLE may_select SET timezone = 'Asia/Tokyo';
  CREATE TABLE people (id text, at timestamptz, price numeric(12, 2), tags text[], raw bytea, data jsonb);
  INSERT INTO people VALUES (E'a\\tb\\\\c', '2026-03-01 12:00:00.25Z', 12.50, '{x,"y,z"}', '\\x00ff', '{"big": 9007199254740993}');
  GRANT SELECT ON people TO may_select;
  CREATE TABLE numbers AS SELECT n FROM generate_series(1, 300000) AS many (n);
  GRANT SELECT ON numbers TO may_select`);
/** A role with the right to read alone. */
const url = admin.replace('//rollcall@', '//may_select@');

const open = async (t: Test, at = url, timeout?: number) => {
  const reader = await openPostgresReader({ url: at }, { timeout });
  t.teardown(() => reader.close().catch(() => {}));
  return reader;
};

t.test('passes the contract with a role that may only select', async (t) => {
  readerContract(t, { open: () => open(t) });
});

t.test('passes the contract with its snapshots in another Postgres', async (t) => {
  engineContract(t, async (t) => {
    const home = await server.database();
    const reopen = async ({ readOnly = false }: { readonly readOnly?: boolean } = {}) => {
      const reads = () => openPostgresReader({ url }, {});
      const engine = await openPostgres({ type: 'postgres', url: home }, { readOnly, reads });
      t.teardown(() => engine.close());
      return engine;
    };
    return { engine: await reopen(), reopen };
  });
});

t.test('is never a smaller audience where the connection is cut', async (t) => {
  await neverReadsLess(t, server.port, (port) => open(t, url.replace(`:${server.port}/`, `:${port}/`)), MANY);
});

t.test('reads every type as an engine does that writes there', async (t) => {
  const reader = await open(t);
  const { columns } = await reader.query({ sql: 'select * from people', now: 0 });
  t.same(
    columns.map(({ name, kind }) => `${name} ${kind}`),
    ['id text', 'at json', 'price json', 'tags json', 'raw binary', 'data json'],
  );
  const sql = 'select id, at, price, tags, data from people where at < $now';
  t.same(await readAll(reader, sql, Date.parse('2026-03-01T12:00:00.250Z')), []);
  t.same(await readAll(reader, sql, Date.parse('2026-03-01T12:00:00.251Z')), [
    ['a\tb\\c', '"2026-03-01T12:00:00.250Z"', '12.50', '["x","y,z"]', '{"big": 9007199254740993}'],
  ]);
});

t.test('writes nothing, whatever the role may do', async (t) => {
  const reader = await open(t, admin);
  await client.query(
    'CREATE OR REPLACE FUNCTION sneak() RETURNS int LANGUAGE sql AS $$ DELETE FROM people RETURNING 1 $$',
  );
  for (const sql of [
    'select sneak() as user_id',
    'delete from people returning id as user_id',
    'select 1) to program $$true$$ --',
  ]) {
    await t.rejects(readAll(reader, sql), { code: 'sql_failed' }, sql);
  }
  t.equal((await client.query('SELECT FROM people')).rowCount, 1);
});

t.test('shows line, caret and hint', async (t) => {
  const message = await readAll(await open(t), 'select $now as x,\n  idd from people', 5).then(
    () => '',
    (error: Error) => error.message,
  );
  t.match(message, 'LINE 2:   idd from people\n          ^');
  t.match(message, /Perhaps you meant/);
});

t.test('a connection that the server ends, and a timeout, fail the reading', async (t) => {
  const reader = await open(t);
  const slow = 'select n as user_id from numbers where pg_sleep(0.01) is not null';
  // Awaited later: it may fail before the answer to the command that ends it.
  const reading = t.rejects(readAll(reader, slow), { code: 'engine_unreachable' });
  const running = async () =>
    (await client.query("SELECT pid FROM pg_stat_activity WHERE query LIKE 'COPY%pg_sleep%' AND state = 'active'"))
      .rows;
  await until(async () => (await running()).length > 0);
  await client.query('SELECT pg_terminate_backend($1)', [(await running())[0]?.pid]);
  await reading;
  await t.rejects(readAll(await open(t, url, -29_900), slow), { code: 'engine_failed', message: /statement timeout/ });
});

t.test('cancels at the server while nobody reads', async (t) => {
  const reader = await open(t);
  const { batches } = await reader.query({ sql: 'select n as user_id from numbers, generate_series(1, 1000)', now: 0 });
  for await (const _ of batches) break;
  const copies =
    "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'COPY%generate_series(1, 1000)%' AND state = 'active'";
  await until(async () => (await client.query(copies)).rowCount === 0);
  t.equal((await readAll(reader, MANY)).length, 20_000);
});

t.test('reads a standby, and a conflict with what the primary removed is no end', { skip }, async (t) => {
  const standby = await startStandby(server, ['max_standby_streaming_delay = 100ms', 'hot_standby_feedback = off']);
  t.teardown(() => standby.stop());
  const at = url.replace(`:${server.port}/`, `:${standby.port}/`);
  t.match(await (await open(t, at)).examine(), [{ state: 'ok', message: /a standby, read only, as may_select/ }]);
  const reader = await open(t, at);
  t.equal((await readAll(reader, 'select n as user_id from numbers')).length, 300_000);
  const { batches } = await reader.query({
    sql: 'select n as user_id, repeat($$x$$, 500) as pad from numbers',
    now: 0,
  });
  const reading = async () => {
    let rows = 0;
    for await (const batch of batches) {
      if (rows === 0) await client.query('DELETE FROM numbers; ').then(() => client.query('VACUUM numbers'));
      rows += sizeOf(batch);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return rows;
  };
  await t.rejects(reading(), { code: 'engine_failed', message: /hot_standby_feedback/ });
});
