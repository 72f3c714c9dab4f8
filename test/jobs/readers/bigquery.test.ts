import { generateKeyPairSync } from 'node:crypto';
import t, { type Test } from 'tap';
import { BIGQUERY, SNOWFLAKE, singleStatement, TRINO } from '../../../jobs/engines/sql/statement.ts';
import { openBigquery } from '../../../jobs/readers/bigquery.ts';
import { readerContract } from '../../contract/reader.ts';
import { startBigquery } from './bigquery-stand-in.ts';
import { neverReadsLess } from './cuts.ts';
import { readAll } from './rows.ts';

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
const private_key = privateKey.export({ type: 'pkcs8', format: 'pem' });
const folder = t.testdir({});

async function open(t: Test, { url, port }: { readonly url: string; readonly port: number }, given = {}) {
  const key = {
    client_email: 'reader@shop.iam.gserviceaccount.com',
    private_key,
    token_uri: `http://127.0.0.1:${port}/token`,
  };
  const config = { type: 'bigquery', project: 'shop', credentials: JSON.stringify(key), url, ...given } as const;
  const reader = await openBigquery(config, { folder });
  t.teardown(() => reader.close());
  return reader;
}

async function start(t: Test, changed?: (path: string, body: object) => object) {
  const server = await startBigquery(changed);
  t.teardown(() => server.close());
  return server;
}

t.test('passes the contract with a stand-in', async (t) => {
  const server = await start(t);
  readerContract(t, { open: () => open(t, server), spelling: { list: null, hasInfinity: false } });
});

t.test('is never a smaller audience where the connection is cut', async (t) => {
  const server = await start(t);
  const sql = 'select generate_series as user_id from generate_series(1, 20000)';
  const through = (port: number) => open(t, { url: `http://127.0.0.1:${port}`, port: server.port });
  await neverReadsLess(t, server.port, through, sql);
});

t.test('an end before the count of rows is no end', async (t) => {
  const server = await start(t, (_path, body) => {
    const { pageToken, ...page } = body as { pageToken?: string };
    return pageToken === '6000' ? page : body;
  });
  const sql = 'select generate_series as user_id from generate_series(1, 20000)';
  await t.rejects(readAll(await open(t, server), sql), { code: 'source_incomplete', message: /6000 rows of 20000/ });
});

t.test('keeps every digit, reads times in UTC, and lists', async (t) => {
  const server = await start(t);
  const reader = await open(t, server);
  const sql = `select 9007199254740993 as big, 12.50 as price, timestamp '2026-03-01 12:00:00.250' as at,
    [timestamp '2026-03-01 12:00:00', null] as times, [1.5, 'nan'::double] as list, 'x'::blob as raw where $now > timestamp '2026-01-01'`;
  const { columns } = await reader.query({ sql, now: Date.parse('2026-02-01') });
  t.same(
    columns.map(({ name, kind }) => `${name} ${kind}`),
    ['big integer', 'price decimal', 'at timestamp', 'times json', 'list json', 'raw binary'],
  );
  const [row] = await readAll(reader, sql, Date.parse('2026-02-01'));
  t.same(row?.slice(0, 5), [
    ...['9007199254740993', '12.50', new Date('2026-03-01T12:00:00.250Z')],
    ...['["2026-03-01T12:00:00.000Z",null]', '[1.5,null]'],
  ]);
  t.match(await reader.examine(), [
    { state: 'ok', message: 'BigQuery, as reader@shop.iam.gserviceaccount.com in shop' },
  ]);
});

t.test('shows the place of a mistake, and cancels what nobody reads', async (t) => {
  const server = await start(t);
  const reader = await open(t, server);
  await t.rejects(readAll(reader, 'select 1 as x,\n  idd from (select 1 as id) -- $now'), {
    code: 'sql_failed',
    message: /\n\nLINE 2: {3}idd from \(select 1 as id\) -- \$now\n {10}\^/,
  });
  for (const sql of ["insert into people values ('a')", 'create table x as select 1 as user_id', 'drop table x'])
    await t.rejects(readAll(reader, sql), { code: 'sql_failed' }, sql);
  const before = server.cancelled.length;
  const { batches } = await reader.query({
    sql: 'select generate_series as id from generate_series(1, 20000)',
    now: 0,
  });
  for await (const _ of batches) break;
  t.equal(server.cancelled.length, before + 1);
});

t.test('wrong credentials are named, and no secret is', async (t) => {
  const server = await start(t);
  const foreign = { client_email: 'a', private_key: 'secret!', token_uri: server.url };
  for (const credentials of ['{}', '/nowhere/key.json', JSON.stringify(foreign)]) {
    const error = await open(t, server, { credentials }).catch((error) => error);
    t.match(error, { code: 'engine_unreachable' });
    t.notMatch(error.message, /secret!/);
  }
});

t.test('fills $now in only outside of the texts, names and comments of each warehouse', async (t) => {
  for (const [lexis, ignored] of [
    [BIGQUERY, ["'''it's\n$now'''", `"""say "$now""""`, `"$now"`, `r'\\'$now'`, '`$now`', '-- $now\n', '# $now\n']],
    [SNOWFLAKE, ["'it\\'s $now'", `$$it's $now$$`, `"$now"`, '// $now\n', '/* $now */']],
    [TRINO, ["'\\'", "'it''s $now'", `"$now"`, '/* $now */']],
  ] as const) {
    for (const text of ignored) t.equal(singleStatement(`select ${text} [$now]`, 'NOW', lexis), `select ${text} [NOW]`);
  }
});
