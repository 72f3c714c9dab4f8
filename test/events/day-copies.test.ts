import { globSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { openSession } from '../../jobs/engines/duckdb/session.ts';
import { EventLogKeeper } from '../../src/events/keeper.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { filesOf } from '../../src/store/events/open-files.ts';
import { openStore } from '../../src/store/open.ts';
import { startFastPostgres } from '../helpers/postgres.ts';
import { bucketOf, startS3 } from '../helpers/s3.ts';
import { keptLog, START } from './helpers/kept-log.ts';
import { writeObjects } from './helpers/objects.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const COLUMNS = `message_id, type, event, user_id, anonymous_id, previous_id, group_id, name, timestamp, received_at,
  CAST(properties AS varchar), CAST(traits AS varchar), CAST(context AS varchar), CAST(rest AS varchar), source, day`;

t.test('copies the ended days of a table into a bucket, and deletes users there', async (t) => {
  const server = await startFastPostgres();
  t.teardown(() => server.stop());
  const s3 = await startS3(t, { pageSize: 2 });
  const folder = t.testdir({});
  let now = START;
  const clock = { ...systemClock, now: () => now, monotonic: () => now, uptime: () => now };
  const store = await openStore({ url: await server.store(), maxQueued: 1_000 }, clock);
  t.teardown(() => store.close());
  const warnings: object[] = [];
  const keeper = (machine: string) =>
    new EventLogKeeper({
      ...{ store, live: store.live, clock, keep: () => 30 * DAY },
      files: filesOf({ keep: 1, path: join(folder, machine), sources: null, bucket: bucketOf(s3) }),
      log: { info() {}, warn: (details) => void warnings.push(details) },
    });
  // The same events in files, to compare.
  const inFiles = await keptLog(t, { folder });
  const add = async (id: string, fields: object, source = 'shop') => {
    const at = new Date(now).toISOString();
    const body = JSON.stringify({ version: 1, type: 'track', messageId: id, timestamp: at, receivedAt: at, ...fields });
    const { userId = null } = fields as { userId?: string };
    const rest = { destinations: [], lane: 'live', conflict: null } as const;
    const messages = [{ source, messageId: id, type: 'track', userId, body, ...rest } as const];
    for (const to of [store, inFiles.store]) await to.accept({ messages, step: null, logged: true });
  };
  const day = async (n: number) => {
    await add(`a${n}`, { event: 'A', userId: 'gone-7', properties: { total: 1.5, 'a b': [null, '✓'] } });
    await add(`b${n}`, { event: 'B', userId: 'stays-8', anonymousId: 'gone-9', context: { ip: '::1' }, extra: n });
    await add(`c${n}`, { event: 'C', userId: 'stays-8' }, "other shop/ü'+");
    await add(`d${n}`, { event: 'D', userId: 'gone-7' }, 'lonely');
  };
  await keeper('one').insist();
  await keeper('one').start();
  await day(1);
  now += DAY;
  inFiles.advance(DAY);
  await day(2);
  now += DAY;
  s3.fail(/^PUT .*source=(shop|lonely).*sealed/, 'late', 'late');
  await keeper('two').start();
  await day(3);
  t.same(warnings, []);
  t.equal(s3.holding('PAR1').length, 6, 'the day is not over');

  const session = await openSession({ path: ':memory:', readOnly: false, settings: {}, patience: 0, clock });
  t.teardown(() => session.close());
  await inFiles.another().stop();
  const read = async (files: readonly string[]) =>
    session.rows(`SELECT ${COLUMNS} FROM read_parquet([${files.map((file) => `'${file.replaceAll("'", "''")}'`)}],
      hive_partitioning = true, hive_types = {'source': VARCHAR, 'day': DATE}) WHERE day < DATE '2026-03-03' ORDER BY 1`);
  const copied = await read(writeObjects(s3, join(folder, 'read')));
  const original = await read(
    globSync('**/*.parquet', { cwd: inFiles.folder }).map((name) => join(inFiles.folder, name)),
  );
  const parsed = (rows: unknown[][]) =>
    rows.map((row) => row.map((value) => (/^[[{]/.test(String(value)) ? JSON.parse(String(value)) : value)));
  t.equal(copied.length, 8);
  t.strictSame(parsed(copied), parsed(original), 'they are as files of a SQLite store');

  s3.fail(/^PUT .*sealed/, 403);
  const request = { ids: { users: ['gone-7'], anonymous: ['gone-9'] }, sources: null };
  await t.rejects(keeper('one').erase([request]), { code: 'bucket_failed' });
  await keeper('one').erase([request]);
  t.same([...s3.holding('gone-7'), ...s3.holding('gone-9')], []);
  t.equal(s3.holding('stays-8').length, 4);
  s3.land();
  t.same(s3.holding('gone-7'), [], 'uploads that are carried out late replace nothing newer');
  t.same(globSync('{one,two}/**/*.parquet', { cwd: folder }), [], 'no machine keeps a copy');
  now += DAY;
  await keeper('two').start();
  t.same([...s3.holding('gone-7'), ...s3.holding('gone-9')], [], 'nor has the next day any');
  t.equal(s3.holding('PAR1').length, 8, 'a day without anybody left stays as an empty file');
  now += 30 * DAY;
  await keeper('two').start();
  now += HOUR;
  await keeper('two').start();
  now += DAY;
  await keeper('two').start();
  t.equal(s3.holding('PAR1').length, 0, 'expired days are dropped there, too');
  t.same(warnings, []);
});
