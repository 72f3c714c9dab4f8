import { generateKeyPairSync } from 'node:crypto';
import t, { type Test } from 'tap';
import { openSnowflake } from '../../../jobs/readers/snowflake.ts';
import { readerContract } from '../../contract/reader.ts';
import { neverReadsLess } from './cuts.ts';
import { readAll } from './rows.ts';
import { startSnowflake } from './snowflake-stand-in.ts';

const { privateKey: key } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
const privateKey = String(key.export({ type: 'pkcs8', format: 'pem' }));
const folder = t.testdir({ 'key.p8': privateKey });
const MANY = 'select generate_series as user_id from generate_series(1, 20000)';

async function open(t: Test, url: string, given = {}) {
  const config = { type: 'snowflake', account: 'shop', user: 'reader', privateKey, url, ...given } as const;
  const reader = await openSnowflake(config, { folder });
  t.teardown(() => reader.close());
  return reader;
}

async function start(t: Test, changed?: (path: string, body: object) => object) {
  const server = await startSnowflake(changed);
  t.teardown(() => server.close());
  return server;
}

t.test('passes the contract with a stand-in', async (t) => {
  const { url } = await start(t);
  const spelling = { list: null, hasInfinity: false };
  readerContract(t, { open: () => open(t, url, { privateKey: './key.p8' }), spelling });
});

t.test('is never a smaller audience where the connection is cut', async (t) => {
  const server = await start(t);
  await neverReadsLess(t, server.port, (port) => open(t, `http://127.0.0.1:${port}`), MANY);
});

t.test('a part with fewer rows, and fewer parts, are no end', async (t) => {
  const shorter = await start(t, (path, body) => (path.endsWith('?3') ? { data: [] } : body));
  await t.rejects(readAll(await open(t, shorter.url), MANY), {
    code: 'source_incomplete',
    message: /part 3 has 0 rows/,
  });
  t.equal(shorter.cancelled.length, 1);
  const fewer = await start(t, (path, body) => {
    const { resultSetMetaData: about } = body as { resultSetMetaData?: { numRows: number; partitionInfo: object[] } };
    if (about && about.numRows > 0 && !path.includes('?')) about.partitionInfo.pop();
    return body;
  });
  await t.rejects(readAll(await open(t, fewer.url), MANY), {
    code: 'source_incomplete',
    message: /18000 rows came of 20000/,
  });
});

t.test('keeps every digit, reads times in UTC, and arrays', async (t) => {
  const { url, asked } = await start(t);
  const reader = await open(t, url);
  const sql = `select 9007199254740993 as big, 12.50 as price, timestamp '2026-03-01 12:00:00.250' as at,
    timestamptz '1960-03-01 12:00:00.250' as old, date '1960-02-29' as day, [1, null] as list where $now > timestamp '2026-01-01'`;
  const { columns } = await reader.query({ sql, now: Date.parse('2026-02-01') });
  t.same(
    columns.map(({ name, kind }) => `${name} ${kind}`),
    ['big integer', 'price decimal', 'at timestamp', 'old timestamp', 'day date', 'list json'],
  );
  const times = ['2026-03-01T12:00:00.250Z', '1960-03-01T12:00:00.250Z', '1960-02-29'].map((time) => new Date(time));
  t.same(await readAll(reader, sql, Date.parse('2026-02-01')), [['9007199254740993', '12.50', ...times, '[1,null]']]);
  t.match(asked.at(-1), { parameters: { timezone: 'UTC', rows_per_resultset: '0', multi_statement_count: '1' } });
  t.match(await reader.examine(), [{ state: 'ok', message: /^Snowflake 10.1, as .* with the role / }]);
});

t.test('shows the place of a mistake, and refuses a wrong key without a word of it', async (t) => {
  const { url } = await start(t);
  await t.rejects(readAll(await open(t, url), 'select 1 as x,\n  idd from (select 1 as id) -- $now'), {
    code: 'sql_failed',
    message: /\n\nLINE 2: {3}idd from \(select 1 as id\) -- \$now\n {10}\^/,
  });
  await t.rejects(readAll(await open(t, url, { user: 'other' }), MANY), {
    code: 'engine_unreachable',
    message: /JWT token is invalid/,
  });
  const error = await open(t, url, { privateKey: '-----BEGIN PRIVATE KEY-----\nsecret!' }).catch((error) => error);
  t.match(error, { code: 'engine_unreachable' });
  t.notMatch(error.message, /secret!/);
});
