import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import t, { type Test } from 'tap';
import { duckdbDialect } from '../../../jobs/engines/duckdb/dialect.ts';
import { openDuckdb } from '../../../jobs/engines/duckdb/duckdb.ts';
import { openSession } from '../../../jobs/engines/duckdb/session.ts';
import type { Engine } from '../../../jobs/engines/port.ts';
import { tablesOf } from '../../../jobs/engines/sql/tables.ts';
import type { LoggedEvents } from '../../../jobs/event-log-access.ts';
import { systemClock } from '../../../src/kernel/clock.ts';
import { type EngineFixture, engineContract, request, settle, told, usersSql } from '../../contract/engine.ts';
import { liesInOrder } from '../../contract/first-order.ts';
import { readsLittleOfLongValues } from '../../contract/long-values.ts';

const clock = systemClock;

async function open(t: Test): Promise<EngineFixture> {
  const folder = t.testdir({});
  const config = { type: 'duckdb', path: join(folder, 'audiences.duckdb'), memoryLimit: null, threads: 1 } as const;
  const reopen = async (options: { readOnly?: boolean } = {}) => {
    const engine = await openDuckdb(config, { folder, clock, ...options });
    t.teardown(() => engine.close().catch(() => {}));
    return engine;
  };
  return { engine: await reopen(), reopen };
}

engineContract(t, open);

t.test('creates the tables of a file once for many first sessions', async (t) => {
  const { reopen } = await open(t);
  const engines = await Promise.all(Array.from({ length: 8 }, () => reopen()));
  await Promise.all(engines.map((engine, n) => settle(engine, { key: `k${n}`, sql: usersSql('a') })));
  t.same(await engines[0]?.snapshot('k7'), { version: 1, members: 1 });
});

t.test('compares as many members at once as memory and threads allow', async (t) => {
  for (const [memory_limit, threads, millions] of [
    ['176MB', '2', 11],
    ['2GB', '1', 242],
    ['1.5GiB', '4', 50],
  ] as const) {
    const file = { path: ':memory:', readOnly: false, settings: { memory_limit, threads }, patience: 0, clock };
    const session = await openSession(file);
    const [[most] = []] = await session.rows(duckdbDialect.parts?.most ?? '');
    t.equal(Math.round(Number(most) / 1e6), millions, memory_limit);
    await session.close();
  }
});

t.test('compares ids and values by their bytes, whatever their collation', async (t) => {
  const { engine } = await open(t);
  const people = (...rows: readonly string[]) =>
    `SELECT a COLLATE nocase AS user_id, b COLLATE nocase AS plan FROM (VALUES ${rows.join(', ')}) AS people (a, b)`;
  for (const kind of ['audience', 'trait'] as const) {
    await settle(engine, { key: kind, kind, sql: people("('a', 'pro')", "('A', 'Pro')") });
    t.match(await engine.snapshot(kind), { members: 2 });
    const next = { key: kind, kind, toVersion: 2, sql: people("('a', 'PRO')", "('B', 'pro')") };
    const { plan } = await engine.stage(request(next));
    t.same(
      told(await engine.changes(plan, 0, 10)).map(([user]) => user),
      kind === 'trait' ? ['A', 'B', 'a'] : ['A', 'B'],
    );
  }
});

t.test('computes a plan again in more parts where memory does not do', async (t) => {
  const folder = t.testdir({});
  const config = { type: 'duckdb', path: join(folder, 'a.duckdb'), memoryLimit: '24MB', threads: 2 } as const;
  const engine = await openDuckdb(config, { folder, clock });
  t.teardown(() => engine.close());
  const sql = `select 'user_' || md5(i::varchar) as user_id from range(500000) as numbers (i)`;
  const expected = { entered: 500_000, duplicates: 0, invalid: 0 };
  t.match(await engine.preview(request({ sql }), 2), expected, 'and a preview');
  const { plan, ...counts } = await engine.stage(request({ sql }));
  t.match(counts, expected);
  const users = new Set<string>();
  for (let after = 0, isOver = false; !isOver; ) {
    const { positions, userIds } = await engine.changes(plan, after, 50_000);
    for (const user of userIds) users.add(user);
    after = positions.at(-1) ?? after;
    isOver = positions.length === 0;
  }
  t.equal(users.size, 500_000);
});

t.test('keeps a hash of each id, also in tables that lack them', async (t) => {
  const folder = t.testdir({});
  const path = join(folder, 'audiences.duckdb');
  const config = { type: 'duckdb', path, memoryLimit: null, threads: 1 } as const;
  const [{ members, leavers, history }, key] = [tablesOf({}), 'club'];
  const tables = [members(key), leavers(key), history];
  const inFile = async (...statements: readonly string[]) => {
    const instance = await DuckDBInstance.create(path);
    const connection = await instance.connect();
    const rows = await Promise.all(statements.map(async (sql) => (await connection.run(sql)).getRowsJS()));
    connection.closeSync();
    instance.closeSync();
    return rows.map(([row]) => row);
  };
  const sync = async (...users: readonly string[]) => {
    const engine = await openDuckdb(config, { folder, clock });
    await settle(engine, { key, sql: usersSql(...users) });
    await engine.close();
  };
  const right = tables.map(
    (table) =>
      `SELECT count(*) > 0, count(*) FILTER (WHERE id_hash IS DISTINCT FROM md5_number_lower(user_id)) FROM ${table}`,
  );
  const allRight = tables.map(() => [true, 0n]);
  await sync('a', 'b');
  await sync('b', 'c');
  t.same(await inFile(...right), allRight);
  await inFile(...tables.map((table) => `ALTER TABLE ${table} DROP COLUMN id_hash`));
  const engine = await openDuckdb(config, { folder, clock, readOnly: true });
  const found = async (user: string) => (await engine.everywhere?.([key], user))?.get(key);
  t.match(await found('a'), { standing: { present: false, since: 2 }, past: [{ since: 1, until: 2 }] });
  t.match(await found('c'), { standing: { present: true, since: 2 }, past: [] });
  await engine.close();
  await sync('c', 'd');
  t.same(await inFile(...right), allRight);
});

t.test('keeps a file open for the next look-up for a while, and for no other use', async (t) => {
  const folder = t.testdir({});
  const config = { type: 'duckdb', path: join(folder, 'audiences.duckdb'), memoryLimit: null, threads: 1 } as const;
  const timers: (() => void)[] = [];
  let [now, slept] = [0, 0];
  const own = {
    ...clock,
    monotonic: () => now,
    sleep: async (ms: number) => {
      slept += ms;
      now += ms;
    },
    after: (_ms: number, callback: () => void) => {
      timers.push(callback);
      return () => {};
    },
  };
  await (await openDuckdb(config, { folder, clock })).close();
  const run = t.capture(DuckDBConnection.prototype, 'run', DuckDBConnection.prototype.run);
  const done = () => run().flatMap(({ args: [sql] }) => String(sql).match(/^(ATTACH|DETACH|USE)\b/)?.[0] ?? []);
  const used = async (stays: boolean) => {
    const engine = await openDuckdb(config, { folder, clock: own, file: { sharesReading: false, patience: 0, stays } });
    await engine.snapshot('club');
    await engine.close();
    return done();
  };
  t.same(await used(true), ['ATTACH', 'USE']);
  t.same(await used(true), [], 'nor is a connection opened');
  t.same(await used(false), ['DETACH', 'ATTACH', 'USE', 'DETACH'], 'it may read other files');
  t.same(await used(true), ['ATTACH', 'USE']);
  for (const timer of timers.splice(0)) timer();
  t.same(await used(true), ['DETACH', 'ATTACH', 'USE'], 'it was unused for a second');
  now += 10_000;
  t.equal(slept, 0);
  t.same(await used(true), ['DETACH', 'ATTACH', 'USE'], 'other processes had no chance for ten seconds');
  t.equal(slept, 125);
  t.same(await used(true), []);
  t.same(await used(false), ['DETACH', 'ATTACH', 'USE', 'DETACH']);
});

t.test('reads the log once for previews of the same SQL', async (t) => {
  const folder = t.testdir({});
  const config = { type: 'duckdb', path: join(folder, 'audiences.duckdb'), memoryLimit: null, threads: 1 } as const;
  const event = { messageId: 'm', type: 'track', event: 'Order', userId: 'a', more: 1, properties: { total: 5 } };
  const at = { timestamp: '2026-01-01T00:00:00Z', receivedAt: '2026-01-01T00:00:00Z' };
  const bodies = [JSON.stringify({ ...event, ...at })];
  let reads = 0;
  const read: LoggedEvents['read'] = async ({ add }) => {
    reads += 1;
    await add([{ id: 1, source: 'shop', bodies: bodies.join('\n') }]);
    return [];
  };
  const engine = await openDuckdb(config, { folder, clock, eventLog: { folder, keep: 86_400_000, read } });
  t.teardown(() => engine.close());
  const sql = "select user_id from tracks where event = 'Order' and CAST(properties ->> 'total' AS int) = 5";
  const members = async (again?: boolean) =>
    (await engine.preview(request({ sql, ...(again && { again }) }), 0)).members;
  t.equal(await members(), 1);
  bodies.push(JSON.stringify({ ...event, ...at, messageId: 'n', userId: 'b' }));
  t.equal(await members(true), 1);
  t.equal(reads, 1);
  t.equal(await members(), 2);
});

t.test('reads the log again if its files were replaced in the meantime', async (t) => {
  const folder = t.testdir({});
  const config = { type: 'duckdb', path: join(folder, 'audiences.duckdb'), memoryLimit: null, threads: 1 } as const;
  const at = { timestamp: '2026-01-01T00:00:00Z', receivedAt: '2026-01-01T00:00:00Z' };
  const linked = { messageId: 'm', type: 'identify', userId: 'a', anonymousId: 'x', ...at };
  let reads = 0;
  const read: LoggedEvents['read'] = async ({ add }) => {
    reads += 1;
    await add([{ id: 1, source: 'shop', bodies: JSON.stringify(linked) }]);
    return reads % 2 === 1 ? [join(folder, 'replaced.parquet')] : [];
  };
  const engine = await openDuckdb(config, { folder, clock, eventLog: { folder, keep: 86_400_000, read } });
  t.teardown(() => engine.close());
  for (const view of ['identities', 'rollcall_identities', 'identities']) {
    const preview = await engine.preview(request({ sql: `select user_id from ${view} where id = 'x'` }), 0);
    t.equal(preview.members, 1, view);
  }
  t.equal(reads, 6);
});

t.test('opens a file while another session closes it', async (t) => {
  const { engine, reopen } = await open(t);
  await engine.close();
  for (let times = 0; times < 25; times += 1) {
    const last = await reopen();
    const opening = [reopen(), reopen(), reopen()];
    await last.close();
    for (const next of await Promise.all(opening)) await next.close();
  }
});

t.test("delays a scrub until another session's read ends", async (t) => {
  const folder = t.testdir({});
  const config = { type: 'duckdb', path: join(folder, 'audiences.duckdb'), memoryLimit: null, threads: 1 } as const;
  const waiting = Promise.withResolvers<void>();
  const sleep: typeof clock.sleep = (ms, signal) => {
    waiting.resolve();
    return clock.sleep(ms, signal);
  };
  const engine = await openDuckdb(config, { folder, clock: { ...clock, sleep } });
  const reader = await openDuckdb(config, { folder, clock });
  t.teardown(() => Promise.all([engine.close(), reader.close()]));
  await settle(engine, { key: 'k', sql: "select 'u' || i as user_id from range(10000) as numbers(i)" });
  const reading = reader.members('k')[Symbol.asyncIterator]();
  await reading.next();
  const scrubbed = engine.scrub('all');
  await Promise.race([waiting.promise, scrubbed]);
  while (!(await reading.next()).done);
  await scrubbed;
  t.match(await engine.snapshot('k'), { members: 10_000 });
});

t.test('ends a plan for a deletion, which overwrites what the plan could still see', async (t) => {
  const { engine, reopen } = await open(t);
  await settle(engine, { key: 'k', sql: usersSql('gone', 'kept') });
  const reader = await reopen({ readOnly: true });
  const { run } = DuckDBConnection.prototype;
  const begun = Promise.withResolvers<void>();
  t.intercept(DuckDBConnection.prototype, 'run', {
    value: function noted(this: DuckDBConnection, ...query: Parameters<typeof run>) {
      if (query[0].startsWith('CREATE TEMPORARY TABLE')) begun.resolve();
      return run.apply(this, query);
    },
  });
  const sql = "select 'u' as user_id from range(1000000000000) as numbers(i) where hash(i) = 42";
  const planned = t.rejects(reader.preview(request({ sql }), 1), { code: 'engine_busy' });
  await begun.promise;
  await engine.forget(['gone']);
  await engine.scrub('all');
  await planned;
  t.match(await reader.preview(request({ sql: usersSql('a') }), 1), { entered: 1 }, 'and its session goes on');
});

t.test('leaves a closed file complete and free, and opens the next one in the same instance', async (t) => {
  const { engine, reopen } = await open(t);
  await settle(engine, { key: 'k', sql: usersSql('a', 'b') });
  t.ok(readdirSync(t.testdirName).some((name) => name.endsWith('.wal')));
  const made = t.capture(DuckDBInstance, 'create', DuckDBInstance.create);
  const ended = t.capture(DuckDBInstance.prototype, 'closeSync', DuckDBInstance.prototype.closeSync);
  await engine.close();
  t.notOk(readdirSync(t.testdirName).some((name) => name.endsWith('.wal')));
  const other = spawn(process.execPath, [
    ...['--input-type=module', '--eval'],
    `import { DuckDBInstance } from '${import.meta.resolve('@duckdb/node-api')}';
     await DuckDBInstance.create('${join(t.testdirName, 'audiences.duckdb')}');`,
  ]);
  t.same(await once(other, 'exit'), [0, null]);
  t.same(await (await reopen()).snapshot('k'), { version: 1, members: 2 });
  t.same([made.args(), ended.args()], [[], []]);
});

t.test("uses a new file's own temporary folder after another file has spilled", async (t) => {
  const folder = t.testdir({});
  const config = { type: 'duckdb', memoryLimit: '24MB', threads: 1 } as const;
  const previewed = async (file: string, sql: string) => {
    const path = join(folder, file);
    const engine = await openDuckdb({ ...config, path }, { folder, clock });
    const { sample } = await engine.preview(request({ sql }), 1);
    const spilled = existsSync(`${path}.tmp`);
    await engine.close();
    return { spilled, users: sample.userIds };
  };
  const spilling = `select 'u' || i as user_id from range(200000) as numbers(i) order by hash(i)`;
  t.match(await previewed('a.duckdb', spilling), { spilled: true });
  const asking = `select current_setting('temp_directory') as user_id`;
  t.same(await previewed('b.duckdb', asking), { spilled: false, users: [join(folder, 'b.duckdb.tmp')] });
});

t.test("doesn't cache files that a run has read", async (t) => {
  const { engine, reopen } = await open(t);
  const parquet = join(t.testdirName, 'users.parquet');
  const maker = await DuckDBInstance.create(':memory:');
  const connection = await maker.connect();
  await connection.run(`COPY (SELECT 'u' || i AS user_id FROM range(1000) AS numbers(i)) TO '${parquet}'`);
  connection.closeSync();
  maker.closeSync();
  const kept = async (engine: Engine) => {
    const sql = 'select 1000 + count(*) as user_id from duckdb_external_file_cache()';
    return Number((await engine.preview(request({ sql }), 1)).sample.userIds[0]) - 1000;
  };
  await settle(engine, { key: 'k', sql: `select user_id from '${parquet}'` });
  t.ok((await kept(engine)) > 0);
  await engine.close();
  t.equal(await kept(await reopen()), 0);
});

t.test('accepts file names that Rollcall or DuckDB use themselves', async (t) => {
  const folder = t.testdir({});
  const taken = ['rollcall', 'Rollcall', 'memory', 'main', 'temp', 'system', 'pg_catalog', 'information_schema'];
  for (const name of [...taken, '', "it's", 'a.b', 'ünï "code"']) {
    const config = { type: 'duckdb', path: join(folder, `${name}.duckdb`), memoryLimit: null, threads: 1 } as const;
    const engine = await openDuckdb(config, { folder, clock });
    t.same(await engine.snapshot('k'), { version: 0, members: 0 }, name);
    if (name === 'rollcall') {
      await settle(engine, { key: 'k', sql: usersSql('a') });
      await engine.scrub('all');
    }
    await engine.close();
  }
});

t.test('spills to disk next to the file, even before it exists', async (t) => {
  const folder = t.testdir({});
  const sql = `select current_setting('temp_directory') as user_id`;
  for (const [path, expected] of [
    [join(folder, 'none.duckdb'), 'none.duckdb.tmp'],
    [':memory:', 'duckdb.tmp'],
  ] as const) {
    const config = { type: 'duckdb', path, memoryLimit: null, threads: 1 } as const;
    const engine = await openDuckdb(config, { folder, clock, readOnly: true });
    const { sample } = await engine.preview(request({ sql }), 1);
    t.same(sample.userIds, [join(folder, expected)]);
    await engine.close();
  }
});

t.test('waits for a file that is open with other settings, unless it only reads', async (t) => {
  const folder = t.testdir({});
  const config = { type: 'duckdb', path: join(folder, 'a.duckdb'), memoryLimit: '256MB', threads: 1 } as const;
  const first = await openDuckdb(config, { folder, clock });
  const reader = await openDuckdb(config, { folder, clock, readOnly: true });
  t.same(await reader.snapshot('club'), { version: 0, members: 0 });
  await reader.close();
  const changed = { ...config, memoryLimit: '300MB' };
  await t.rejects(openDuckdb(changed, { folder, clock, file: { sharesReading: true, patience: 0 } }), {
    code: 'engine_unreachable',
    message: /a\.duckdb: it is open here with other settings/,
  });
  const waiting = openDuckdb(changed, { folder, clock });
  await first.close();
  await first.close();
  await (await waiting).close();
});

t.test("resolves files in SQL against the configuration's folder", async (t) => {
  const folder = t.testdir({ 'people.csv': 'user_id\n007\n8\n' });
  const config = { type: 'duckdb', path: join(folder, 'a.duckdb'), memoryLimit: '512MB', threads: 1 } as const;
  const engine = await openDuckdb(config, { folder, clock });
  t.teardown(() => engine.close());
  const sql = "select user_id from read_csv('people.csv', all_varchar = true)";
  const { plan } = await engine.stage(request({ sql }));
  t.same(told(await engine.changes(plan, 0, 10)), [
    ['007', true],
    ['8', true],
  ]);
});

t.test('creates no file for a preview', async (t) => {
  const folder = t.testdir({});
  const path = join(folder, 'absent.duckdb');
  const engine = await openDuckdb(
    { type: 'duckdb', path, memoryLimit: null, threads: 1 },
    { folder, clock, readOnly: true },
  );
  t.match(await engine.preview(request({ sql: usersSql('a') }), 1), { total: 1 });
  await engine.close();
  t.notOk(existsSync(path));
});

t.test('waits for a file that another process holds, then names the holder', async (t) => {
  const folder = t.testdir({});
  const path = join(folder, 'held.duckdb');
  const holder = join(folder, 'holder.mjs');
  const api = import.meta.resolve('@duckdb/node-api');
  writeFileSync(
    holder,
    `import { DuckDBInstance } from '${api}';
     const instance = await DuckDBInstance.create('${path}');
     process.stdout.write('held');
     setInterval(() => {}, 1000);`,
  );
  const child = spawn(process.execPath, [holder], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.teardown(() => child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  const config = { type: 'duckdb', path, memoryLimit: null, threads: 1 } as const;
  await t.rejects(openDuckdb(config, { folder, clock, file: { sharesReading: true, patience: 0 } }), {
    code: 'engine_unreachable',
    message: new RegExp(`PID ${child.pid}`),
  });
  const waiting = openDuckdb(config, { folder, clock, file: { sharesReading: true, patience: 30_000 } });
  child.kill('SIGKILL');
  const engine = await waiting;
  await settle(engine, { sql: usersSql('a') });
  t.same(await engine.snapshot('club'), { version: 1, members: 1 });
  await engine.close();
});

t.test("reports a file that can't be opened", async (t) => {
  const folder = t.testdir({ 'not.duckdb': 'this is no database, whatever its name says; but long enough to be read' });
  const config = { type: 'duckdb', path: join(folder, 'not.duckdb'), memoryLimit: null, threads: 1 } as const;
  await t.rejects(openDuckdb(config, { folder, clock }), { code: 'engine_unreachable', message: /not\.duckdb/ });
});

t.test('sends null for NaN and infinity at any depth, and leaves text unchanged', async (t) => {
  const { engine } = await open(t);
  const values = {
    'list of structs': [`[{ a: 'nan'::double, b: ['inf'::float] }]`, [{ a: null, b: [null] }]],
    'struct that is null': [`{ a: NULL::STRUCT(x DOUBLE), n: 1 }`, { a: null, n: 1 }],
    'times in a struct': [`{ "at ""it": timestamp '2026-01-01 10:00:00' }`, { 'at "it': '2026-01-01T10:00:00.000Z' }],
    map: [`map { 'k': 'nan'::double, 'l': 1.5 }`, { k: null, l: 1.5 }],
    array: [`array_value('nan'::double, 1.5)`, [null, 1.5]],
    union: [`union_value(n := 'nan'::double)`, { n: null }],
    tuple: [`row('x', 'nan'::double, timestamp '2026-01-01 10:00:00')`, ['x', null, '2026-01-01T10:00:00.000Z']],
    'tuples in a list': [`[('tea', 2), NULL, (NULL, NULL)]`, [['tea', 2], null, [null, null]]],
    'tuples in a struct': [`{ a: ((1, 2), [(3, 4)]) }`, { a: [[1, 2], [[3, 4]]] }],
    'tuples in a map': [`map { 'k': (1, { a: 'b' }) }`, { k: [1, { a: 'b' }] }],
    JSON: [`'{"NaN\\"inf":[NaN,-Infinity,inf,"NaN",1]}'::json`, { 'NaN"inf': [null, null, null, 'NaN', 1] }],
    'JSON in a list': [`['{"a":NaN}'::json, NULL]`, [{ a: null }, null]],
    'list in a list': [`[['nan'::double], []]`, [[null], []]],
  } as const;
  for (const [name, [sql, expected]] of Object.entries(values)) {
    const { plan } = await engine.stage(
      request({ key: 'v', kind: 'trait', sql: `select 'u' as user_id, ${sql} as value` }),
    );
    t.same(
      (await engine.changes(plan, 0, 1)).values.map((value) => JSON.parse(value ?? '').v),
      [expected],
      name,
    );
  }
  for (const sql of [`{ a: ['x'::blob] }`, `(1, 'x'::blob)`, 'union_value(t := (1, 2))']) {
    await t.rejects(
      engine.stage(request({ kind: 'trait', sql: `select 'u' as user_id, ${sql} as value` })),
      { code: 'column_type' },
      `what has no form is refused there too: ${sql}`,
    );
  }
});

t.test('loads nothing from the network for names in SQL', async (t) => {
  const { engine } = await open(t);
  const sql = "select 'it is ' || current_setting('autoinstall_known_extensions') as user_id";
  const { plan } = await engine.stage(request({ sql }));
  t.same((await engine.changes(plan, 0, 1)).userIds, ['it is false']);
});

liesInOrder(t, open);
readsLittleOfLongValues(t, open);

t.test('leaves out ids that other databases would reject', async (t) => {
  const { engine } = await open(t);
  const sql = "select user_id from (values ('a' || chr(0)), (chr(0)), ('b')) as list(user_id)";
  t.match(await engine.stage(request({ sql })), { members: 1, invalid: 2 });
  const trait = { key: 'last', kind: 'trait', sql: sql.replace('user_id', 'user_id, 1 as value') } as const;
  t.match(await engine.stage(request(trait)), { members: 1, invalid: 2 });
  await settle(engine, { sql: usersSql('c') });
  t.match(await engine.stage(request({ sql, toVersion: 2 })), { members: 1, exited: 1, invalid: 2 });
});

t.test('reads a plan in order, in any page size and with any text', async (t) => {
  const { engine } = await open(t);
  const odd = ['"', '\\', '\n-', 'é😀', '\u2028-', 'nulls'];
  const sql = `select format('u{}', hash(i)) as user_id, i as value from range(200000) as numbers(i)
    union all ${odd.map((id) => `select '${id}', 1`).join(' union all ')}`;
  const { plan, total } = await engine.stage(request({ kind: 'trait', sql }));
  t.equal(total, 200_006);
  const { positions, userIds, present, values } = await engine.changes(plan, 0, total);
  t.ok(positions.length === total && positions.every((position, index) => position === index + 1));
  const bytes = userIds.map((id) => Buffer.from(id));
  t.ok(bytes.every((id, index) => index === 0 || Buffer.compare(bytes[index - 1] as Buffer, id) < 0));
  t.same(
    userIds.filter((id) => odd.includes(id)),
    ['\n-', '"', '\\', 'nulls', 'é😀', '\u2028-'],
  );
  t.ok(present.every((is) => is === true));
  t.equal(values[0], '{"club":1}');
  await t.rejects(engine.changes('nobody', 0, 10), /does not exist/);
});
