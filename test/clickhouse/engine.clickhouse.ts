import { truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { openClickhouse } from '../../jobs/engines/clickhouse/clickhouse.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { engineContract, request, settle, told, usersSql } from '../contract/engine.ts';
import { startFront } from './front.ts';

const front = await startFront();
t.teardown(() => front.stop());

const folder = import.meta.dirname;
let databases = 0;

interface Options {
  readonly readOnly?: boolean;
  readonly timeout?: number;
  readonly settings?: Readonly<Record<string, string | number | boolean>>;
}

const spelling = {
  list: (items: readonly string[]) => `[${items.join(', ')}]`,
  moment: (text: string) => `toDateTime64('${text}', 3)`,
  hasInfinity: false,
  hasTimes: false,
};

async function open(t: Test) {
  databases += 1;
  const [url, database] = [await front.database(), `rollcall_${databases}`];
  const reopen = async ({ settings = {}, ...options }: Options = {}) => {
    const config = { type: 'clickhouse', url, database, settings } as const;
    const engine = await openClickhouse(config, { folder, clock: systemClock, ...options });
    t.teardown(() => engine.close());
    return engine;
  };
  return { engine: await reopen(), reopen, spelling, database };
}

engineContract(t, open);

/** The engine's own tables, straight from the database. */
const tablesOf = (database: string) =>
  front.run(`SELECT name FROM system.tables WHERE database = '${database}'`).trim().split('\n');

t.test('creates nothing when only reading, and previews before the first sync', async (t) => {
  const config = { type: 'clickhouse', url: await front.database(), database: 'never_made', settings: {} } as const;
  const engine = await openClickhouse(config, { folder, clock: systemClock, readOnly: true });
  t.teardown(() => engine.close());
  const preview = await engine.preview(request({ sql: usersSql('b', 'a') }), 5);
  t.match(preview, { entered: 2, before: 0, sample: { userIds: ['a', 'b'], positions: [1, 2] } });
  t.same(await engine.snapshot('club'), { version: 0, members: 0 });
  t.same(
    [await engine.staged('x'), await engine.history('club', 'a'), [...(await engine.lookup('club', ['a']))]],
    [null, [], []],
  );
  t.equal(front.run(`SELECT count() FROM system.databases WHERE name = 'never_made'`).trim(), '0');
});

t.test('ignores an interrupted stage as a plan, and removes its remains in the next run', async (t) => {
  const { engine, database } = await open(t);
  const sql = 'select throwIf(number = 3) as user_id from numbers(10) settings max_block_size = 1';
  await t.rejects(engine.stage(request({ sql, leasedAt: 10 })), { code: 'sql_failed' });
  t.same(
    tablesOf(database).filter((name) => name.startsWith('plan_')),
    [],
    'what fails cleans up',
  );
  front.run(`INSERT INTO ${database}.plans SELECT 'half', 'club', 10, '', 0, 1`);
  front.run(`CREATE TABLE ${database}.plan_${'0'.repeat(16)} (n UInt64) ENGINE = MergeTree ORDER BY n`);
  t.equal(await engine.staged('half'), null);
  await t.rejects(engine.commit('half'), { code: 'snapshot_lost' });
  await settle(engine, { sql: usersSql('a'), leasedAt: 20 });
  t.equal(front.run(`SELECT count() FROM ${database}.plans FINAL WHERE gone = 0`).trim(), '0');
});

t.test('hides an interrupted commit, which can be repeated or discarded', async (t) => {
  const { engine, database } = await open(t);
  await settle(engine, { sql: usersSql('a', 'b') });
  const { plan } = await engine.stage(request({ toVersion: 2, sql: usersSql('b', 'c'), leasedAt: 5 }));
  const states = tablesOf(database).find((name) => name.startsWith('states_'));
  // As the process leaves it that dies before the snapshot's row is written; some of it is of another plan.
  front.run(`INSERT INTO ${database}.${states} SELECT 'a', 2, false, NULL UNION ALL SELECT 'stray', 2, true, NULL`);
  t.same(await engine.snapshot('club'), { version: 1, members: 2 });
  t.same(
    [...(await engine.lookup('club', ['a', 'stray'])).entries()].map(([user, { present }]) => [user, present]),
    [['a', true]],
  );
  await engine.commit(plan);
  t.same(await engine.snapshot('club'), { version: 2, members: 2 });
  const found = await engine.lookup('club', ['a', 'b', 'c', 'stray']);
  t.same([...found].map(([user, { present }]) => [user, present]).sort(), [
    ['a', false],
    ['b', true],
    ['c', true],
  ]);
  t.same(await engine.history('club', 'a'), [{ value: null, since: 1, until: 2 }]);
});

t.test('omits a user who is forgotten during a commit', async (t) => {
  const { engine, database, reopen } = await open(t);
  await settle(engine, { sql: usersSql('a', 'b') });
  const { plan } = await engine.stage(request({ toVersion: 2, sql: usersSql('b', 'c', 'd') }));
  // The front holds the commit's insert back until the deletion has been carried out.
  const other = await reopen();
  const written = front.hold((sql) => sql.includes(`INSERT INTO \`${database}\`.states_`));
  const committing = engine.commit(plan);
  await written.reached;
  const forgetting = other.forget(['c', 'a']);
  written.release();
  await Promise.all([committing, forgetting]);
  t.same([...(await engine.lookup('club', ['a', 'b', 'c', 'd'])).keys()].sort(), ['b', 'd']);
  t.same(await engine.history('club', 'a'), []);
});

t.test('prunes superseded rows once they are most of a table', async (t) => {
  const { engine, database } = await open(t);
  const all = 'select toString(number) as user_id from numbers(1, 6000)';
  for (const sql of [all, usersSql('1'), all, usersSql('1'), all]) await settle(engine, { sql });
  const rows = () =>
    Number(
      front.run(`SELECT count() FROM ${database}.${tablesOf(database).find((name) => name.startsWith('states_'))}`),
    );
  t.equal(rows(), 1 + 5_999 * 5);
  await engine.prune(0);
  t.equal(rows(), 6_000);
  t.same(await engine.snapshot('club'), { version: 5, members: 6_000 });
  t.equal((await engine.history('club', '7')).length, 2, 'the past stays as long as it is asked to');
});

t.test("sends the engine's settings with each query, but keeps those that Rollcall relies on", async (t) => {
  const { reopen } = await open(t);
  const settings = {
    join_use_nulls: 1,
    max_threads: 1,
    async_insert: 1,
    join_algorithm: 'grace_hash',
    max_bytes_before_external_group_by: 100_000_000,
  };
  const engine = await reopen({ settings, timeout: 5_000 });
  const sql = `select l.id as user_id, r.x as value from (select 'a' as id union all select 'b') as l
    left join (select 'a' as id, 1 as x) as r on l.id = r.id`;
  const { plan } = await engine.stage(request({ kind: 'trait', key: 'x', sql }));
  t.same(told(await engine.changes(plan, 0, 10)), [['a', { x: 1 }]], 'a left join gives null');
  const { parameters } = front.requests.at(-1) ?? { parameters: new URLSearchParams() };
  t.match(Object.fromEntries(parameters), {
    join_algorithm: 'grace_hash',
    async_insert: '0',
    session_timezone: 'UTC',
    max_execution_time: '35',
  });
  const plain = await reopen({ settings: { join_use_nulls: 0 } });
  const second = await plain.stage(request({ kind: 'trait', key: 'x', sql }));
  t.same(
    told(await plain.changes(second.plan, 0, 10)),
    [
      ['a', { x: 1 }],
      ['b', { x: 0 }],
    ],
    'and 0 where ClickHouse is left as it is',
  );
});

t.test('spills large joins, with the algorithms that can', async (t) => {
  const { reopen } = await open(t);
  for (const join_algorithm of ['grace_hash', 'full_sorting_merge']) {
    const engine = await reopen({
      settings: { join_algorithm, max_memory_usage: 400_000_000, max_bytes_before_external_sort: 50_000_000 },
    });
    const sql = `select toString(l.number) as user_id from numbers(1500000) as l join numbers(1500000) as r on l.number = r.number where l.number % 100 = 7`;
    t.match(await engine.stage(request({ sql, key: join_algorithm })), { total: 15_000 }, join_algorithm);
  }
});

t.test('distinguishes errors of a query, a user and a server', async (t) => {
  const { engine, reopen } = await open(t);
  await settle(engine, { sql: usersSql('a') });
  const tight = await reopen({ settings: { max_memory_usage: 10_000_000 } });
  const heavy =
    'select toString(number) as user_id from (select number from numbers(1, 30000000) order by sipHash64(number))';
  await t.rejects(tight.stage(request({ toVersion: 2, sql: heavy })), {
    code: 'engine_failed',
    message: /docs\/engines\.md/,
  });
  const slow = await reopen({ settings: { max_execution_time: 1 } });
  const endless = 'select toString(number) as user_id from system.numbers where sipHash64(number) = 1';
  await t.rejects(slow.stage(request({ toVersion: 2, sql: endless })), {
    code: 'engine_failed',
    message: /timeout.*[^.\s]\. See timeout/i,
  });
  await t.rejects(engine.stage(request({ toVersion: 2, sql: 'select user_id from nowhere' })), { code: 'sql_failed' });
  await t.rejects(
    engine.stage(
      request({ toVersion: 2, sql: `select user_id from url('http://127.0.0.1:1/x', CSV, 'user_id String')` }),
    ),
    { code: /sql_failed|engine_/ },
  );
  const wrong = { type: 'clickhouse', database: 'rollcall', settings: {} } as const;
  const opening = (url: string) => openClickhouse({ ...wrong, url }, { folder, clock: systemClock });
  const bad = front.url.replace(':right@', ':secret@');
  await t.rejects(opening(bad), { code: 'engine_unreachable', message: /Authentication failed\.$/ });
  await opening(bad).catch(({ message }) => t.notMatch(message, /secret/));
  await t.rejects(opening('http://rollcall:right@127.0.0.1:1'), {
    code: 'engine_unreachable',
    message: /127\.0\.0\.1:1/,
  });
  await t.rejects(opening(`${front.url}/missing`), { code: 'engine_unreachable', message: /missing.*\S\.$/ });
  t.same(await engine.snapshot('club'), { version: 1, members: 1 }, 'and the snapshot stays');
});

t.test('reports a truncated file', async (t) => {
  const { engine } = await open(t);
  const file = join(t.testdir({}), 'people.parquet');
  front.run(`INSERT INTO FUNCTION file('${file}', Parquet) SELECT toString(number) AS user_id FROM numbers(1, 10000)`);
  const sql = `select user_id from file('${file}', Parquet)`;
  t.match(await engine.stage(request({ sql })), { members: 10_000 });
  await truncate(file, 5_000);
  await t.rejects(engine.stage(request({ sql })), { code: 'source_incomplete' });
  await writeFile(file, '');
  await t.rejects(engine.stage(request({ sql })), { code: /source_incomplete|sql_failed/ });
});

t.test('preserves strings with backslashes, quotes and odd bytes', async (t) => {
  const { engine } = await open(t);
  const users = ["o\\'x", 'back\\slash', 'tab\tx', 'ünï', '$now', ';'];
  await settle(engine, {
    sql: users
      .map((user) => `select '${user.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}' as user_id`)
      .join(' union all '),
  });
  t.same([...(await engine.lookup('club', users)).keys()].sort(), [...users].sort());
  await engine.forget(users.slice(1));
  t.match(await engine.snapshot('club'), { members: 1 });
  const { plan } = await engine.stage(request({ key: 'bytes', sql: `select unhex('FF41') as user_id` }));
  t.same((await engine.changes(plan, 0, 1)).userIds, ['\ufffdA']);
});

t.test('writes types that only ClickHouse has as JSON', async (t) => {
  const { engine } = await open(t);
  const sql = `select toUInt32(7) as user_id, map('a', 1, 'b', nan) as m, [toLowCardinality('x'), 'y'] as l, tuple(1, 'q')::Tuple(n UInt8, s String) as t,
    toDecimal64(1.50, 4) as d, toUInt64(18446744073709551615) as big, toDate32('1925-01-01') as day, toDateTime('2026-01-01 09:00:00', 'Asia/Tokyo') as tokyo,
    CAST('on', 'Enum8(''on'' = 1)') as e, toFloat32(0.1) as f, toIPv4('10.0.0.1') as ip, CAST(NULL, 'Nullable(Bool)') as unknown`;
  const { plan } = await engine.stage(request({ kind: 'trait', key: 'all', sql }));
  t.same(told(await engine.changes(plan, 0, 1)), [
    [
      '7',
      {
        ...{
          m: { a: 1, b: null },
          l: ['x', 'y'],
          t: { n: 1, s: 'q' },
          d: 1.5,
          big: 18446744073709552000,
          day: '1925-01-01',
        },
        ...{ tokyo: '2026-01-01T00:00:00.000Z', e: 'on', f: 0.1, ip: '10.0.0.1', unknown: null },
      },
    ],
  ]);
  await t.rejects(engine.stage(request({ kind: 'trait', sql: 'select 1 as user_id, uniqState(1) as u' })), {
    code: 'column_type',
  });
});

t.test('stops interrupted SQL in ClickHouse, too', async (t) => {
  const { engine } = await open(t);
  const stop = new AbortController();
  const sql = 'select toString(number) as user_id from system.numbers where sipHash64(number) = 1';
  const staging = engine.stage(request({ sql, signal: stop.signal }));
  const runs = () =>
    Number(
      front.run(
        `SELECT count() FROM system.processes WHERE query LIKE '%INSERT INTO%sipHash64(number) = 1%' AND query NOT LIKE '%processes%'`,
      ),
    );
  while (runs() === 0) await new Promise((resolve) => setImmediate(resolve));
  stop.abort(new Error('enough'));
  await t.rejects(staging, { message: 'enough' });
  t.equal(runs(), 0);
});

t.test("makes the same tables, columns and plans whatever the profile's settings", async (t) => {
  const settings = {
    data_type_default_nullable: 1,
    empty_result_for_aggregation_by_empty_set: 1,
    describe_include_subcolumns: 1,
    enable_named_columns_in_function_tuple: 1,
  };
  const url = await front.database();
  const config = { type: 'clickhouse', url, database: 'profiled_rollcall', settings } as const;
  const engine = await openClickhouse(config, { folder, clock: systemClock });
  t.teardown(() => engine.close());
  const wanted = request({ kind: 'trait', key: 'x', sql: "select 'a' as user_id, map('b', 1) as x" });
  const { entered, sample } = await engine.preview(wanted, 5);
  t.same([entered, told(sample)], [1, [['a', { x: { b: 1 } }]]]);
  await settle(engine, wanted);
  t.same(await engine.snapshot('x'), { version: 1, members: 1 });
});

t.test('fails beyond a limit of the profile instead of returning part of the rows', async (t) => {
  const { reopen } = await open(t);
  const sql = 'select toString(number) as user_id from numbers(1, 20000)';
  const limits = [
    { max_rows_to_group_by: 100, group_by_overflow_mode: 'any' },
    { max_rows_to_read: 5000, max_block_size: 1000, read_overflow_mode: 'break' },
    { max_rows_to_sort: 5000, max_block_size: 1000, sort_overflow_mode: 'break' },
  ];
  for (const settings of limits) {
    const engine = await reopen({ settings: { max_threads: 1, ...settings } });
    await t.rejects(engine.stage(request({ sql })), { message: /Limit for/ }, Object.keys(settings).join());
  }
});

// The last: once the server within this process was read only, it stays so.
t.test("reports the server's version, and what would keep runs from working", async (t) => {
  const { reopen } = await open(t);
  t.match(await (await reopen()).examine?.(1), [{ state: 'ok', message: /^ClickHouse \d+\./ }]);
  const reader = await reopen({ readOnly: true, settings: { readonly: 1 } });
  t.match(await reader.examine?.(1), [{ state: 'failed', message: /only read \(readonly = 1\)/ }, { state: 'ok' }]);
});
