import { rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { sealTail } from '../../src/events/sealing.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { folderFiles } from '../../src/store/events/files.ts';
import { keptLog } from './helpers/kept-log.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const ids = 'SELECT message_id FROM events ORDER BY 1';

t.test('seals a day when it is over, the tail after 15 minutes, and everything at a clean stop', async (t) => {
  const { keeper, log, add, advance, query, onDisk, another } = await keptLog(t);
  await add({ id: '1', event: 'A', userId: 'u' });
  await keeper.start();
  t.equal((await log.state()).tail.events, 1, 'nothing is due');
  advance(15 * 60_000);
  await another().start();
  t.same(
    (await log.state()).files.map(({ source, day, events }) => [source, day, events]),
    [['shop', '2026-03-01', 1]],
  );
  advance(11.5 * HOUR);
  await add({ id: '2', event: 'A', userId: 'u', source: 'other shop/ü' });
  advance(HOUR);
  await add({ id: '3', event: 'A', userId: 'u' });
  await another().start();
  t.equal((await log.state()).tail.events, 0, 'the day of the oldest is over');
  await add({ id: '4', event: 'A', userId: 'u' });
  await keeper.stop();
  const { files, tail } = await log.state();
  t.equal(tail.events, 0);
  t.same(files.map(({ name }) => name).toSorted(), onDisk().toSorted(), 'nothing else is on the disk');
  t.same(await query(ids), [['1'], ['2'], ['3'], ['4']]);
  t.same(await query(`SELECT message_id, day FROM events WHERE source = 'other shop/ü'`), [
    ['2', new Date('2026-03-01')],
  ]);
});

t.test(
  'merges small files into few, sorted by user and time, and keeps the replaced ones for ten minutes',
  async (t) => {
    const { keeper, log, add, advance, query, onDisk, another } = await keptLog(t);
    for (let n = 0; n < 9; n += 1) {
      await add({ id: `b${n}`, event: 'A', userId: `u${9 - n}` }, { id: `a${n}`, event: 'A', userId: `u${n}` });
      await another().stop();
    }
    const before = (await log.state()).files.map(({ name }) => name);
    await keeper.start();
    await keeper.stop();
    const after = (await log.state()).files;
    t.ok(
      after.length < before.length && after.some(({ events }) => events >= 16),
      `${before.length} became ${after.length}`,
    );
    t.ok(onDisk().length > after.length, 'whoever reads the old ones may go on');
    t.equal((await query(ids)).length, 18);
    advance(DAY);
    await another().start();
    t.equal((await log.state()).files.length, 1, 'a day that is over is one file');
    advance(10 * 60_000);
    await another().start();
    t.same(
      onDisk(),
      (await log.state()).files.map(({ name }) => name),
    );
    const sorted = await query(
      `SELECT count(*) FROM (SELECT user_id < lag(user_id) OVER () AS wrong FROM events) WHERE wrong`,
    );
    t.same(sorted, [[0n]]);
  },
);

t.test('drops whole days that have expired', async (t) => {
  const { log, add, advance, query, onDisk, another } = await keptLog(t, { keep: 30 * DAY });
  await add({ id: 'old', event: 'A', userId: 'u' });
  await another().stop();
  advance(30 * DAY);
  await add({ id: 'new', event: 'A', userId: 'u' });
  await another().start();
  t.same(await query(ids), [['new'], ['old']], 'kept for 30 days');
  advance(DAY);
  await another().start();
  t.same(await query(ids), [['new']]);
  advance(HOUR);
  await another().start();
  t.same(
    onDisk(),
    (await log.state()).files.map(({ name }) => name),
  );
});

t.test('drops nothing while a clock is 400 days ahead', async (t) => {
  const { add, advance, query, another } = await keptLog(t, { keep: 30 * DAY });
  const look = () => another().start();
  await add({ id: 'old', event: 'A', userId: 'u' });
  await another().stop();
  await look();
  advance(400 * DAY);
  await look();
  advance(HOUR);
  await look();
  advance(-400 * DAY);
  await look();
  t.same(await query(ids), [['old']]);
  advance(400 * DAY);
  await look();
  advance(DAY);
  await look();
  t.same(await query(ids), [], 'one that stays there is believed after a day');
});

t.test('does nothing while another process holds the lease', async (t) => {
  const { store, log, add, another } = await keptLog(t);
  await add({ id: '1', event: 'A' });
  const fence = await store.takeLease('event-log', 60_000);
  await another().stop();
  t.equal((await log.state()).tail.events, 1);
  if (fence) await store.releaseLease(fence);
  await another().stop();
  t.equal((await log.state()).tail.events, 0);
});

t.test('fails with the name of a missing file, instead of reading a smaller log', async (t) => {
  const { log, add, another, folder, query } = await keptLog(t);
  await add({ id: '1', event: 'A' });
  await another().stop();
  const [file] = (await log.state()).files;
  rmSync(join(folder, file?.name ?? ''));
  await t.rejects(query(ids), { message: new RegExp(file?.name.slice(-20) ?? '') });
});

t.test('leaves no file if another process has taken over in the meantime', async (t) => {
  const { store, log, add, advance, onDisk, folder } = await keptLog(t);
  await add({ id: '1', event: 'A', userId: 'u' });
  const fence = await store.takeLease('event-log', 60_000);
  if (fence === null) throw new Error('no lease');
  const files = folderFiles(folder);
  const put: typeof files.put = async (draft, name) => {
    await files.put(draft, name);
    t.same(onDisk(), [name]);
    advance(60_000);
    await store.takeLease('event-log', 60_000);
  };
  await t.rejects(sealTail({ log, files: { ...files, put }, clock: systemClock, fence }), { code: 'fence_lost' });
  t.same(onDisk(), []);
  t.equal((await log.state()).tail.events, 1);
});
