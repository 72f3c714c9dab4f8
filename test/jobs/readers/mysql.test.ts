import mysql from 'mysql2/promise';
import t, { type Test } from 'tap';
import { openMysql } from '../../../jobs/readers/mysql.ts';
import { MYSQL_SPELLING, readerContract } from '../../contract/reader.ts';
import { type MariadbServer, NO_MARIADB, startMariadb } from '../../helpers/mariadb.ts';
import { until } from '../../helpers/until.ts';
import { neverReadsLess } from './cuts.ts';
import { readAll } from './rows.ts';

const folder = t.testdir({});
const MANY = 'select seq as user_id from seq_1_to_20000';

t.test('reads MariaDB', { skip: NO_MARIADB }, async (t) => {
  const server: MariadbServer = await startMariadb(['--default-time-zone=+05:00', '--sql-mode=ANSI_QUOTES']);
  t.teardown(() => server.stop());
  const { admin, reader: url } = await server.database();
  const client = await mysql.createConnection({ uri: admin, multipleStatements: true });
  await client.query(`
    create table people (id varchar(20) primary key, at timestamp(3) null, day date, big bigint, price decimal(12, 2), raw blob, vip tinyint(1), ratio double);
    insert into people values ('a', '2026-03-01 17:00:00.250', '2026-03-01', 9007199254740993, 12.50, x'00ff', 1, 0.1)`);
  t.teardown(() => client.end());
  const open = (t: Test, at = url, timeout?: number) =>
    openMysql({ type: 'mysql', url: at, options: {} }, { folder, timeout }).then((reader) => {
      t.teardown(() => reader.close());
      return reader;
    });
  await t.test('passes the contract', async (t) => {
    readerContract(t, { open: () => open(t), spelling: MYSQL_SPELLING });
  });

  await t.test('is never a smaller audience where the connection is cut', async (t) => {
    await neverReadsLess(t, server.port, (port) => open(t, url.replace(`:${server.port}/`, `:${port}/`)), MANY);
  });

  await t.test('keeps every digit, reads times in UTC, and knows types', async (t) => {
    const reader = await open(t);
    const { columns } = await reader.query({ sql: 'select * from people', now: 0 });
    t.same(
      columns.map(({ name, kind }) => `${name} ${kind}`),
      [
        'id text',
        'at timestamp',
        'day date',
        'big integer',
        'price decimal',
        'raw binary',
        'vip boolean',
        'ratio double',
      ],
    );
    const sql = 'select id, at, big, price from people where at < $now';
    t.same(await readAll(reader, sql, Date.parse('2026-03-01T12:00:00.250Z')), []);
    t.same(await readAll(reader, sql, Date.parse('2026-03-01T12:00:00.251Z')), [
      ['a', '2026-03-01 12:00:00.250', '9007199254740993', '12.50'],
    ]);
  });

  await t.test('writes nothing, whatever the user may do', async (t) => {
    const reader = await open(t, admin);
    for (const sql of ['delete from people', "insert into people (id) values ('b')", 'create table x (a int)']) {
      await t.rejects(readAll(reader, sql), { code: 'sql_failed' }, sql);
    }
    const [rows] = await client.query<mysql.RowDataPacket[]>('select count(*) as n from people');
    t.equal(rows[0]?.['n'], 1);
  });

  await t.test('no limit of a session cuts a result', async (t) => {
    await client.query(
      'set global sql_select_limit = 3, global net_write_timeout = 2, global max_recursive_iterations = 5',
    );
    t.teardown(() =>
      client.query(
        'set global sql_select_limit = default, global net_write_timeout = default, global max_recursive_iterations = default',
      ),
    );
    const reader = await open(t);
    t.equal((await readAll(reader, MANY)).length, 20_000);
    const counting = 'with recursive c (n) as (select 1 union all select n + 1 from c where n < 100) select n from c';
    t.equal((await readAll(reader, counting)).length, 100);
    await t.rejects(readAll(reader, `${MANY} limit rows examined 100`), { code: 'source_incomplete', message: /cut/ });
  });

  await t.test('shows the place of a mistake, and strings that look like it are none', async (t) => {
    const reader = await open(t);
    const place = (sql: string) =>
      readAll(reader, sql).then(
        () => '',
        ({ message }: Error) => message,
      );
    t.match(await place("select '$now' as x,\n  idd from people"), 'LINE 2:   idd from people\n          ^');
    t.match(await place('select id as user_id\nfrom people wher $now > at'), /LINE 2: from people wher/);
    t.match(await place('select id from persons'), 'LINE 1: select id from persons\n                       ^');
    t.same(await readAll(reader, "select '\\'; $now' as user_id -- ; $now\n# $now"), [["'; $now"]]);
    await t.rejects(readAll(reader, 'select 1; select 2'), { code: 'sql_failed', message: /single statement/ });
  });

  await t.test('a server that is killed, a timeout and a full connection list fail the reading', async (t) => {
    const slow = `${MANY} where sleep(0.001) = 0`;
    const limited = await open(t, url, -29_900);
    await t.rejects(readAll(limited, slow), { code: 'engine_failed', message: /max_statement_time/ });
    await client.query('set global max_connections = 10');
    const others = await Promise.all(Array.from({ length: 9 }, () => mysql.createConnection(url).catch(() => null)));
    await t.rejects(
      open(t).then((reader) => readAll(reader, MANY)),
      { code: 'engine_unreachable', message: /Too many connections/ },
    );
    for (const other of others) other?.destroy();
    await client.query('set global max_connections = 100');
    const reader = await open(t);
    // Awaited later: it may fail before the answer to the command that ends it.
    const reading = t.rejects(readAll(reader, slow), { code: 'engine_unreachable' });
    const running = async () => {
      const [found] = await client.query<mysql.RowDataPacket[]>(
        "select id from information_schema.processlist where info like '%sleep%' and user like 'reader%'",
      );
      return found[0]?.['id'] as number | undefined;
    };
    await until(async () => (await running()) !== undefined);
    await client.query(`kill ${await running()}`);
    await reading;
    t.equal((await readAll(reader, MANY)).length, 20_000, 'the next reading connects again');
  });

  await t.test('names the command that installs a missing driver', async (t) => {
    const reader = await open(t);
    t.match(await reader.examine(), [{ state: 'ok', message: /MariaDB.*, read only, as reader_/ }]);
    await t.rejects(
      open(t, url.replace('secret', 'wrong')).then((reader) => readAll(reader, MANY)),
      { code: 'engine_unreachable', message: /Access denied/ },
    );
  });
});
