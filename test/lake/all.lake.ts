import { mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import type * as Api from '@duckdb/node-api';
import mysql from 'mysql2/promise';
import pg from 'pg';
import t, { type Test } from 'tap';
import { normalise } from '../../src/config/normalise.ts';
import { fileSchema } from '../../src/config/schema.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { request } from '../contract/engine.ts';
import { NO_MARIADB, startMariadb } from '../helpers/mariadb.ts';
import { startFastPostgres } from '../helpers/postgres.ts';
import { download, EXTENSIONS, startExtensionServer, VERSION } from './extensions.ts';
import { startS3 } from './s3.ts';

const { DuckDBInstance } = createRequire(import.meta.url)('@duckdb/node-api') as typeof Api;
// Loaded later: of two DuckDB libraries of one name, a process keeps the first.
const { openDuckdb } = await import('../../jobs/engines/duckdb/duckdb.ts');
const { installMissing } = await import('../../jobs/engines/duckdb/lake.ts');

const folder = t.testdir({});
const skip = download(folder) ? false : `pip has no packages duckdb-extension-*==${VERSION}`;
if (skip) t.comment(`Skipped: ${skip}`);

async function open(given: Readonly<Record<string, unknown>>, readOnly = false) {
  const file = fileSchema.parse({
    sources: [{ id: 's', writeKey: 'k' }],
    engines: { lake: { type: 'duckdb', path: './a.duckdb', ...given } },
  });
  const config = normalise(file, folder).engines['lake'];
  if (config?.type !== 'duckdb') throw new Error('no engine');
  return openDuckdb(config, { folder, clock: systemClock, readOnly });
}

/** The ids that SQL finds, or the error. */
async function ids(given: Readonly<Record<string, unknown>>, sql: string): Promise<readonly string[]> {
  const engine = await open(given);
  try {
    return [...(await engine.preview(request({ sql }), 20)).sample.userIds];
  } finally {
    await engine.close();
  }
}

const shown = (error: unknown): string =>
  error instanceof Error
    ? `${error.stack} ${JSON.stringify(error, Object.getOwnPropertyNames(error))} ${shown(error.cause)}`
    : String(error);

t.test('installs missing extensions, and says which it can not', { skip }, async (t) => {
  process.env['HOME'] = join(folder, 'home');
  mkdirSync(process.env['HOME']);
  const server = await startExtensionServer(folder);
  t.teardown(() => server.close());
  await t.rejects(open({ extensions: ['sqlite'] }), { message: /Run: rollcall doctor --install/ });
  process.env['HTTP_PROXY'] = server.url;
  const remarks = await installMissing({ extensions: ['no_such_extension', ...EXTENSIONS] });
  delete process.env['HTTP_PROXY'];
  const [refused, ...installed] = remarks;
  t.match(refused, { state: 'failed', message: /^the extension no_such_extension can't be installed: HTTP Error/ });
  t.same(
    installed,
    EXTENSIONS.map((name) => ({ state: 'ok', message: `the extension ${name} is installed` })),
  );
  t.equal(server.asked.length, 1 + EXTENSIONS.length);
  const engine = await open({ extensions: EXTENSIONS });
  t.match(await engine.examine?.(1), [{ message: new RegExp(`^DuckDB v${VERSION}`) }]);
  await engine.close();
});

const s3Secret = (endpoint: string, key_id = 'KEY') => ({
  r2: {
    ...{ type: 's3', key_id, secret: 's3cret-s3cret', endpoint },
    ...{ use_ssl: false, url_style: 'path', region: 'us-east-1' },
  },
});

async function startStore(t: Test) {
  const s3 = await startS3();
  t.teardown(() => s3.close());
  return { s3, given: { extensions: ['httpfs'], secrets: s3Secret(s3.endpoint) } };
}

t.test('reads files of object storage, whole or not at all', { skip }, async (t) => {
  const { s3, given } = await startStore(t);
  const columns = { id: 'text', n: 'bigint' };
  s3.put('orders/1.csv', 'id,n\na,1\n');
  s3.put('orders/2.csv', 'n,id\n2,b\n');
  const orders = { files: 's3://bucket/orders/*.csv', columns };
  const sql = 'select id as user_id from orders where n > 0';
  t.same(await ids({ ...given, tables: { orders } }, sql), ['a', 'b']);
  s3.put('orders/2.csv', 'n,id\nx,b\n');
  await t.rejects(ids({ ...given, tables: { orders } }, sql), { code: 'file_differs', message: /2\.csv, \w+ \d/ });

  const text = `id,n\n${Array.from({ length: 30_000 }, (_, n) => `user_${(n * 7919) % 99_991},1\n`).join('')}`;
  for (const [ending, packed] of [
    ['gz', gzipSync(text)],
    ['zst', zstdCompressSync(text)],
  ] as const) {
    const key = `packed.csv.${ending}`;
    const tables = { orders: { files: `s3://bucket/${key}`, columns } };
    const counted = 'select count(*)::varchar as user_id from orders';
    s3.put(key, packed);
    t.same(await ids({ ...given, tables }, counted), ['30000'], key);
    s3.put(key, packed.subarray(0, packed.length >> 1));
    await t.rejects(ids({ ...given, tables }, counted), { code: 'source_incomplete', message: /is cut off/ }, key);
    const named = `select count(*)::varchar as user_id from 's3://bucket/${key}'`;
    await t.rejects(ids(given, named), { code: 'source_incomplete', message: /is cut off/ }, key);
  }
});

t.test('looks at a remote file again once it changed', { skip }, async (t) => {
  const { s3, given } = await startStore(t);
  const sql = "select id as user_id from 's3://bucket/o.csv' where n > 0";
  const rows = Array.from({ length: 20_480 }, (_, n) => `c${n},10\n`).join('');
  s3.put('o.csv', `id,n\n${rows}`);
  const reads = async () => {
    const before = s3.reads.length;
    await ids(given, sql);
    return s3.reads.length - before;
  };
  const first = await reads();
  t.ok((await reads()) < first, 'the second reads less');
  s3.put('o.csv', `id,n\n${rows}dora,499.6\n`);
  await t.rejects(ids(given, sql), { code: 'types_guessed', message: /o\.csv.* column n: "499\.6" is not BIGINT/ });
});

t.test('reads other databases and writes none', { skip, timeout: 300_000 }, async (t) => {
  const postgres = await startFastPostgres();
  t.teardown(() => postgres.stop());
  const erp = new URL(await postgres.database());
  erp.password = 'pass-w0rd';
  const client = new pg.Client({ connectionString: erp.href });
  await client.connect();
  await client.query("create table users as select 'p' as id");
  const lite = new DatabaseSync(join(folder, 'lite.db'));
  lite.exec("create table users(id text); insert into users values ('l')");
  lite.close();
  const other = await DuckDBInstance.create(join(folder, 'other.duckdb'));
  const connection = await other.connect();
  await connection.run("create table users as select 'd' as id");
  connection.closeSync();
  other.closeSync();
  const attach: Record<string, Record<string, string>> = {
    erp: { type: 'postgres', url: erp.href },
    lite: { type: 'sqlite', path: './lite.db' },
    crm: { type: 'duckdb', path: './other.duckdb' },
  };
  const tables: Record<string, string> = { erp: 'erp.public.users', lite: 'lite.users', crm: 'crm.users' };
  const writes = [
    "select 1 as user_id from postgres_execute('erp', 'create table written(id int)')",
    "select * from postgres_query('erp', 'insert into users values (''w'') returning id as user_id')",
  ];
  if (NO_MARIADB) t.comment(`Skipped: ${NO_MARIADB}`);
  else {
    const server = await startMariadb();
    t.teardown(() => server.stop());
    const { admin } = await server.database();
    const maria = await mysql.createConnection(admin);
    await maria.query("create table users as select 'm' as id");
    t.teardown(() => maria.end());
    attach['shop'] = { type: 'mysql', url: admin };
    tables['shop'] = `shop.${new URL(admin).pathname.slice(1)}.users`;
    writes.push(
      "select 1 as user_id from mysql_execute('shop', 'create table written(id int)')",
      "select * from mysql_query('shop', 'insert into users values (''w'') returning id as user_id')",
    );
  }
  const given = { extensions: ['postgres', 'mysql', 'sqlite'], attach };
  const all = Object.values(tables).map((table) => `select id as user_id from ${table}`);
  const found = NO_MARIADB ? ['d', 'l', 'p'] : ['d', 'l', 'm', 'p'];
  t.same(await ids(given, all.join(' union all ')), found);
  for (const sql of [
    ...writes,
    ...all.map((each) => each.replace(/select .* from (.*)/, "insert into $1 values ('w')")),
  ])
    await t.rejects(ids(given, sql), { code: /^sql_failed|engine_failed$/ }, sql);
  t.same(await ids(given, all.join(' union all ')), found, 'nothing was written');
  t.equal((await client.query("select to_regclass('written')")).rows[0].to_regclass, null);
  await client.end();

  const secrets = { ...s3Secret('127.0.0.1:1') };
  const engine = await open({ ...given, extensions: [...given.extensions, 'httpfs'], secrets });
  const listed = [
    "select concat_ws(' ', name, secret_string, scope::text) as user_id from duckdb_secrets()",
    "select concat_ws(' ', database_name, path, options::text) as user_id from duckdb_databases()",
    'select sql as user_id from duckdb_views()',
    "select concat_ws(' ', name, value) as user_id from duckdb_settings()",
  ];
  const texts: string[] = [JSON.stringify(await engine.examine?.(1))];
  for (const sql of listed)
    texts.push(await engine.preview(request({ sql }), 20).then(({ sample }) => sample.userIds.join(' '), shown));
  await engine.close();
  const wrong = { ...attach['erp'], url: erp.href.replace('pass-w0rd', 'wr0ng-pass') };
  const nowhere = { ...attach['erp'], url: 'postgres://me:wr0ng-pass@127.0.0.1:1/erp' };
  const shop = new URL(attach['shop']?.['url'] ?? 'mysql://me@127.0.0.1:1/shop');
  shop.password = 'wr0ng-pass';
  const maria = { type: 'mysql', url: shop.href };
  for (const erp of [wrong, nowhere, maria])
    texts.push(
      await open({ ...given, attach: { erp } })
        .then((engine) => engine.close(), shown)
        .then(String),
    );
  t.notMatch(texts.join('\n'), /s3cret|pass-w0rd|wr0ng-pass/);
  t.match(texts.at(-1), /Can't attach erp/);
});

t.test('shows no secret of a store that refuses it', { skip }, async (t) => {
  const { s3, given } = await startStore(t);
  s3.put('o.csv', 'id\na\n');
  const sql = "select id as user_id from 's3://bucket/o.csv'";
  const error = await ids({ ...given, secrets: s3Secret(s3.endpoint, 'WRONG') }, sql).catch((error) => error);
  t.equal(error.code, 'sql_failed');
  t.match(
    error.message,
    new RegExp(`HTTP GET error reading 'http://${s3.endpoint}/bucket/o\\.csv' in region 'us-east-1'.*403`),
  );
  t.notMatch(shown(error), /s3cret/);
});

t.test('reads a table of Delta', { skip }, async (t) => {
  const log = join(folder, 'delta', '_delta_log');
  mkdirSync(log, { recursive: true });
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  await connection.run(`copy (select 'd' as id) to '${join(folder, 'delta', '1.parquet')}'`);
  connection.closeSync();
  instance.closeSync();
  const schema = { type: 'struct', fields: [{ name: 'id', type: 'string', nullable: true, metadata: {} }] };
  const actions = [
    { protocol: { minReaderVersion: 1, minWriterVersion: 2 } },
    {
      metaData: {
        ...{ id: 'a', format: { provider: 'parquet', options: {} }, schemaString: JSON.stringify(schema) },
        ...{ partitionColumns: [], configuration: {}, createdTime: 0 },
      },
    },
    { add: { path: '1.parquet', partitionValues: {}, size: 300, modificationTime: 0, dataChange: true } },
  ];
  writeFileSync(join(log, '00000000000000000000.json'), actions.map((each) => JSON.stringify(each)).join('\n'));
  const sql = `select id as user_id from delta_scan('${join(folder, 'delta')}')`;
  t.same(await ids({ extensions: ['delta'] }, sql), ['d']);
});
