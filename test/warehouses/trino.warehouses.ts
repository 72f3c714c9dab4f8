import t, { type Test } from 'tap';
import { openTrino } from '../../jobs/readers/trino.ts';
import { readerContract, TRINO_SPELLING } from '../contract/reader.ts';
import { until } from '../helpers/until.ts';
import { CUTS, neverReadsLess } from '../jobs/readers/cuts.ts';
import { readAll } from '../jobs/readers/rows.ts';
import { installTrino, startTrino, TRINO_VERSION } from './trino.ts';

const skip = await installTrino();
if (skip) t.comment(skip);
const MANY = TRINO_SPELLING.series?.(20_000).replace('select n', 'select n as user_id') ?? '';

t.test('reads Trino', { skip }, async (t) => {
  const trino = await startTrino({ memory: ['connector.name=memory'] }, { workers: 2, memory: '1G' });
  t.teardown(() => trino.stop());
  t.comment(`Trino ${TRINO_VERSION} from Maven, with two workers: the contract, and ${CUTS} cuts`);
  const open = async (t: Test, port = trino.port, timeout?: number) => {
    const url = trino.url('memory/default').replace(`:${trino.port}/`, `:${port}/`);
    const reader = await openTrino({ type: 'trino', url }, { timeout });
    t.teardown(() => reader.close());
    return reader;
  };
  await trino.run(
    'create table memory.default.people (id char(5), at timestamp(6) with time zone, tags array(varchar), big bigint)',
  );
  await trino.run(
    "insert into memory.default.people values ('a', timestamp '2026-03-01 14:00:00.250999 +02:00', array['x', 'y,z'], 9007199254740993)",
  );

  await t.test('passes the contract', async (t) => {
    readerContract(t, { open: () => open(t), spelling: TRINO_SPELLING });
  });

  await t.test('is never a smaller audience where the connection is cut', async (t) => {
    await neverReadsLess(t, trino.port, (port) => open(t, port), MANY);
  });

  await t.test('keeps every digit, reads times in UTC, and brackets are no names', async (t) => {
    const reader = await open(t);
    const sql = 'select id, at, tags, big, array[$now][1] as now from people where at < $now';
    t.same(await readAll(reader, sql, Date.parse('2026-03-01T12:00:00.250Z')), []);
    t.same(await readAll(reader, sql, Date.parse('2026-03-01T12:00:00.251Z')), [
      ['a', new Date('2026-03-01T12:00:00.250Z'), '["x","y,z"]', '9007199254740993', '2026-03-01 12:00:00.251'],
    ]);
    t.match(await reader.examine(), [{ state: 'ok', message: `Trino ${TRINO_VERSION}, as test` }]);
  });

  await t.test('shows the place of a mistake, and writes nothing', async (t) => {
    const reader = await open(t);
    await t.rejects(readAll(reader, 'select $now as x,\n  idd from people', 5), {
      code: 'sql_failed',
      message: /Column 'idd' cannot be resolved\n\nLINE 2: {3}idd from people\n {10}\^/,
    });
    for (const sql of ['delete from people', "insert into people (id) values ('b')", 'create table x (a int)'])
      await t.rejects(readAll(reader, sql), { code: 'sql_failed' }, sql);
    t.equal((await readAll(reader, 'select id from people')).length, 1);
  });

  await t.test('a query that somebody cancels, and one that takes too long, fail the reading', async (t) => {
    const reader = await open(t);
    const endless = TRINO_SPELLING.endless ?? '';
    const queries = async () =>
      readAll(
        await open(t),
        "select query_id from system.runtime.queries where state = 'RUNNING' and query like '%n + m%' and query not like '%runtime%'",
      );
    // Awaited later: it may fail before the answer to the command that ends it.
    const reading = t.rejects(readAll(reader, endless), { code: 'engine_failed' });
    await until(async () => (await queries()).length > 0);
    await trino.run(`call system.runtime.kill_query(query_id => '${(await queries())[0]?.[0]}', message => 'enough')`);
    await reading;
    await t.rejects(readAll(await open(t, trino.port, -29_000), endless), {
      code: 'engine_failed',
      message: /exceeded maximum time limit/,
    });
    const stop = new AbortController();
    const { batches } = await reader.query({ sql: endless, now: 0, signal: stop.signal });
    const aborted = t.rejects(
      async () => {
        for await (const _ of batches);
      },
      { message: 'enough' },
    );
    await until(async () => (await queries()).length > 0);
    stop.abort(new Error('enough'));
    await aborted;
    await until(async () => (await queries()).length === 0);
  });
});
