import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type * as Api from '@duckdb/node-api';
import t, { type Test } from 'tap';
import type { LookOnce } from '../../jobs/engines/duckdb/sources/looks.ts';
import type { SqlSession } from '../../jobs/engines/sql/session.ts';
import { startFastPostgres } from '../helpers/postgres.ts';

const VERSION = '1.5.5';
const EXTENSIONS = ['httpfs', 'postgres_scanner', 'sqlite_scanner'] as const;
const { DuckDBInstance } = createRequire(import.meta.url)('@duckdb/node-api') as typeof Api;
// Loaded later: of two DuckDB libraries of one name, a process keeps the first.
const { LAKE_SETTINGS, lakeStatements, withoutSecrets } = await import('../../jobs/engines/duckdb/lake.ts');
const { openTable, showTable } = await import('../../jobs/engines/duckdb/sources/tables.ts');

/** A folder of extensions, taken from Python packages; null where pip or its registry is missing. */
function extensions(folder: string): string | null {
  const wheels = join(folder, 'wheels');
  const names = EXTENSIONS.map((name) => `duckdb-extension-${name.replace('_', '-')}==${VERSION}`);
  const python = (...given: string[]) => spawnSync('python3', given).status === 0;
  if (!python('-m', 'pip', 'download', '--quiet', '--no-deps', '-d', wheels, ...names)) return null;
  for (const wheel of readdirSync(wheels)) if (!python('-m', 'zipfile', '-e', join(wheels, wheel), folder)) return null;
  return folder;
}

const OBJECTS: Readonly<Record<string, string>> = { 'orders/1.csv': 'id,n\na,1\n', 'orders/2.csv': 'n,id\n2,b\n' };

/** The part of S3 that reading needs. */
async function startS3(t: Test) {
  const signed: string[] = [];
  const server = createServer(({ url = '', method, headers }, answer) => {
    signed.push(headers.authorization ?? '');
    const { pathname, searchParams } = new URL(url, 'http://s3');
    if (searchParams.has('list-type')) {
      const found = Object.entries(OBJECTS).map(
        ([key, { length }]) =>
          `<Contents><Key>${key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>"x"</ETag><Size>${length}</Size></Contents>`,
      );
      answer.end(`<ListBucketResult><IsTruncated>false</IsTruncated>${found.join('')}</ListBucketResult>`);
      return;
    }
    const body = OBJECTS[pathname.replace('/bucket/', '')] ?? '';
    const [, from = 0, to = body.length - 1] = /bytes=(\d+)-(\d+)/.exec(headers.range ?? '') ?? [];
    const part = body.slice(Number(from), Number(to) + 1);
    const range = headers.range === undefined ? {} : { 'content-range': `bytes ${from}-${to}/${body.length}` };
    answer.writeHead(headers.range === undefined ? 200 : 206, { 'content-length': part.length, ...range });
    answer.end(method === 'HEAD' ? undefined : part);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  return { endpoint: `127.0.0.1:${(server.address() as AddressInfo).port}`, signed };
}

t.test('reads object storage and other databases, writes neither, and shows no secret', async (t) => {
  const folder = t.testdir({});
  const found = extensions(folder);
  if (found === null) {
    t.comment(`Skipped: pip has no packages duckdb-extension-*==${VERSION}`);
    return;
  }
  const [s3, postgres] = await Promise.all([startS3(t), startFastPostgres()]);
  t.teardown(() => postgres.stop());
  const lite = new DatabaseSync(join(folder, 'lite.db'));
  lite.exec("create table users(id text); insert into users values ('l')");
  lite.close();
  const url = new URL(await postgres.database());
  url.password = 'pass-w0rd';
  const settings = { key_id: 'KEY', secret: 's3cret-s3cret', use_ssl: false, url_style: 'path', region: 'us-east-1' };
  const config = {
    extensions: EXTENSIONS,
    secrets: { r2: { type: 's3', endpoint: s3.endpoint, ...settings } },
    attach: {
      erp: { type: 'postgres', url: url.href },
      lite: { type: 'sqlite', path: join(folder, 'lite.db') },
    },
  } as const;
  const instance = await DuckDBInstance.create(':memory:', LAKE_SETTINGS);
  const connection = await instance.connect();
  t.teardown(() => {
    connection.closeSync();
    instance.closeSync();
  });
  for (const statement of lakeStatements(config)) {
    const [, name] = /^LOAD "(.*)"$/.exec(statement) ?? [];
    const file = join(folder, `duckdb_extension_${name}`, 'extensions', `v${VERSION}`, `${name}.duckdb_extension`);
    await connection.run(name === undefined ? statement : `LOAD '${file}'`);
  }
  const rows = async (sql: string) => (await connection.run(sql)).getRowsJS();
  const once: LookOnce = async (_what, look) => void (await look());
  const session = { rows, run: async (sql: string) => (await rows(sql)).length } as unknown as SqlSession;
  const table = await openTable({ session, folder, once }, 'orders', {
    ...{ files: ['s3://bucket/orders/*.csv'], format: 'csv', columns: { id: 'text', n: 'bigint' }, partitions: {} },
    ...{ header: true, delimiter: ',', quote: '"', encoding: 'utf-8', decimal: '.' },
    ...{ dateFormat: null, timestampFormat: null, missingColumns: 'fail', newColumns: 'fail' },
  });
  await showTable(session, table);
  t.same(await rows('select id, n from orders order by id'), [
    ['a', 1n],
    ['b', 2n],
  ]);
  t.ok(s3.signed.every((header) => header.startsWith('AWS4-HMAC-SHA256 Credential=KEY/')));
  t.same(await rows('select id from lite.users'), [['l']]);
  t.same(await rows('select 1 from erp.information_schema.tables limit 1'), [[1]]);
  for (const sql of ['create table erp.public.x as select 1', "insert into lite.users values ('z')"])
    await t.rejects(rows(sql), { message: /read-only/ }, sql);
  const shown = [
    ...(await rows('from duckdb_secrets()')),
    ...(await rows('select path, database_name from duckdb_databases()')),
    ...(await rows('select sql from duckdb_views() union all select sql from duckdb_tables()')),
  ];
  t.notMatch(
    JSON.stringify(shown, (_key, value) => (typeof value === 'bigint' ? String(value) : value)),
    /s3cret|pass-w0rd/,
  );
  t.equal(withoutSecrets(config)('refused: password=pass-w0rd, s3cret-s3cret'), 'refused: password=…, …');
});
