import t from 'tap';
import { openClickhouse } from '../../../jobs/engines/clickhouse/clickhouse.ts';
import { bare, jsonText, jsonType } from '../../../jobs/engines/clickhouse/types.ts';
import { CLICKHOUSE, singleStatement } from '../../../jobs/engines/sql/statement.ts';
import { systemClock } from '../../../src/kernel/clock.ts';

/* Tests that need a ClickHouse are in test/clickhouse; run them with `npm run test:clickhouse`. */

t.test('says what to install if the client is missing', async (t) => {
  const config = {
    type: 'clickhouse',
    url: 'http://rollcall:secret@127.0.0.1:1',
    database: 'rollcall',
    settings: {},
  } as const;
  const opening = openClickhouse(config, { folder: t.testdir({}), clock: systemClock });
  await t.rejects(opening, { code: 'engine_unreachable', message: /npm install @clickhouse\/client/ });
});

t.test('refuses a client that treats failed statements as done', async (t) => {
  const client = (version: string) => ({
    'package.json': JSON.stringify({ version, main: 'index.js' }),
    'index.js': 'exports.createClient = () => ({ query() { throw new Error("tried") }, close() {} });',
  });
  const opening = (version: string) => {
    const folder = t.testdir({ node_modules: { '@clickhouse': { client: client(version) } } });
    const config = { type: 'clickhouse', url: 'http://127.0.0.1:1', database: 'rollcall', settings: {} } as const;
    return openClickhouse(config, { folder, clock: systemClock });
  };
  await t.rejects(opening('1.20.9'), { code: 'engine_unreachable', message: /is 1\.20\.9.*1\.21 or newer/ });
  for (const version of ['1.21.0', '2.0.0']) await t.rejects(opening(version), { message: /tried/ }, version);
});

t.test('recognizes types within their wrappers', async (t) => {
  t.equal(bare('LowCardinality(Nullable(String))'), 'String');
  t.same(jsonType('Array(Nullable(UInt64))'), { type: 'number', isList: true });
  t.same(jsonType('Array(Array(String))'), { type: 'unknown', isList: true });
  t.same(jsonType("Nullable(Enum8('a' = 1))"), { type: 'string', isList: false });
  t.same(jsonType('Map(String, UInt8)'), { type: 'unknown', isList: false });
  t.equal(jsonText('x', 'AggregateFunction(uniq, UInt8)'), null);
  t.equal(jsonText('x', 'Array(AggregateFunction(uniq, UInt8))'), null);
});

t.test('reads backslash escapes in strings and quoted names, and # comments', async (t) => {
  const sql = "select 'it\\'s; $now' as `a\\`;$now`, $now -- ; $now\n;";
  t.equal(singleStatement(sql, 'NOW', CLICKHOUSE), "select 'it\\'s; $now' as `a\\`;$now`, NOW -- ; $now\n");
  t.throws(() => singleStatement("select '\\'; select 2", 'NOW'), { code: 'sql_failed' }, 'elsewhere it does not');
  t.throws(() => singleStatement('select 1; select 2', 'NOW', CLICKHOUSE), { code: 'sql_failed' });
  t.equal(singleStatement("select 1 # it's; one\n;#! $now", 'NOW', CLICKHOUSE), "select 1 # it's; one\n#! $now");
  t.throws(
    () => singleStatement('select 1 # 2; select 3', 'NOW'),
    { code: 'sql_failed' },
    'elsewhere # is an operator',
  );
});
