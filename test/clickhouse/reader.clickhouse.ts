import t, { type Test } from 'tap';
import { openClickhouseReader } from '../../jobs/readers/clickhouse.ts';
import { readerContract } from '../contract/reader.ts';
import { CUTS, neverReadsLess } from '../jobs/readers/cuts.ts';
import { readAll } from '../jobs/readers/rows.ts';
import { startFront } from './front.ts';

const front = await startFront({ readOnly: true });
t.teardown(() => front.stop());
const folder = import.meta.dirname;
const home = await front.database();
front.run(`CREATE TABLE ${new URL(home).pathname.slice(1)}.people (id String, at DateTime64(3, 'Asia/Tokyo'), tags Array(String),
  price Decimal(12, 2), big UInt64, raw Float64) ENGINE = MergeTree ORDER BY id AS
  SELECT 'a', toDateTime64('2026-03-01 12:00:00.250', 3, 'UTC'), ['x', 'y,z'], 12.5, 9007199254740993, 0.1`);

const open = async (t: Test, url = home, settings = {}) => {
  const config = { type: 'clickhouse', url, database: 'none', settings } as const;
  const reader = await openClickhouseReader(config, { folder });
  t.teardown(() => reader.close());
  return reader;
};

const [[version] = []] = [front.run('SELECT version()').trim().split('\n')];
t.comment(`ClickHouse ${version} by chdb, a session that may only read: the contract, and ${CUTS} cuts`);

t.test('passes the contract with a user who may only select', async (t) => {
  readerContract(t, {
    open: () => open(t),
    spelling: {
      text: (quoted) => `cast(${quoted.replaceAll('\\', '\\\\')} as varchar)`,
      list: (items) => `[${items.join(', ')}]`,
      moment: (text) => `toDateTime64('${text}', 3)`,
      hasInfinity: false,
      hasTimes: false,
      series: (count) => `select number + 1 as n from numbers(${count})`,
      endless: 'select toString(number) as user_id from system.numbers where sipHash64(number) = 1',
    },
  });
});

t.test('is never a smaller audience where the connection is cut', async (t) => {
  const { port } = new URL(home);
  const through = (other: number) => open(t, home.replace(`:${port}`, `:${other}`));
  await neverReadsLess(t, Number(port), through, 'select number as user_id from numbers(20000)');
});

t.test('keeps every digit, reads times in UTC, and writes nothing', async (t) => {
  const reader = await open(t);
  const sql = 'select * from people where at < $now';
  t.same(await readAll(reader, sql, Date.parse('2026-03-01T12:00:00.250Z')), []);
  t.same(await readAll(reader, sql, Date.parse('2026-03-01T12:00:00.251Z')), [
    ['a', '"2026-03-01T12:00:00.250Z"', '["x","y,z"]', '12.5', '9007199254740993', '0.1'],
  ]);
  t.match(await reader.examine(), [{ state: 'ok', message: /^ClickHouse .*, read only, as / }]);
  for (const sql of ["insert into people (id) values ('b')", 'drop table people', 'select 1; drop table people'])
    await t.rejects(readAll(reader, sql), { code: 'sql_failed' }, sql);
});

t.test('no setting of a profile cuts a result', async (t) => {
  const limited = await open(t, home, { limit: 3 });
  t.equal((await readAll(limited, 'select number as user_id from numbers(10)')).length, 10);
});
