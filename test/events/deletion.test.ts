import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { resolveIds } from '../../src/store/deleted-ids.ts';
import { keptLog } from './helpers/kept-log.ts';

const EVERYBODY = 'SELECT DISTINCT user_id FROM events WHERE user_id IS NOT NULL ORDER BY 1';

t.test('erases users from the log, with their events from before they were identified', async (t) => {
  const { keeper, log, add, another, query, holding, onDisk, folder } = await keptLog(t);
  await add(
    { id: '1', event: 'Seen', anonymousId: 'anon-of-ann' },
    { id: '2', type: 'identify', userId: 'ann-the-first', anonymousId: 'anon-of-ann', traits: { a: 1 } },
    { id: '3', event: 'Seen', userId: 'bob-the-second' },
    { id: '4', event: 'Seen', userId: 'ann-the-former' },
    { id: '5', type: 'alias', 'User ID': 'ann-the-first', 'Previous ID': 'ann-the-former' },
  );
  await another().stop();
  await add(
    { id: '6', event: 'Seen', userId: 'ann-the-first' },
    { id: '7', event: 'Seen', anonymousId: 'anon-of-bob' },
    { id: '8', event: 'Seen', userId: 'ann-the-first', source: 'other' },
  );
  const [ids] = await keeper.linked((links) => resolveIds(links, [['ann-the-first']]));
  t.match(ids, {
    notified: ['ann-the-first', 'ann-the-former'],
    anonymous: ['anon-of-ann', 'ann-the-first', 'ann-the-former'],
  });
  await keeper.erase(ids ? [{ ids, sources: null }] : []);
  t.same(await query(EVERYBODY), [['bob-the-second']]);
  t.same(await query('SELECT message_id FROM events ORDER BY 1'), [['3'], ['7']]);
  const listed = (await log.state()).files.map(({ name }) => name);
  t.same(
    onDisk().toSorted(),
    ['deletions.jsonl', ...listed].toSorted(),
    'files that are rewritten are removed at once',
  );
  for (const id of ['ann-the-first', 'ann-the-former', 'anon-of-ann']) t.same(holding(id), [], `${id} below ${folder}`);
});

t.test('erases only the events of the requested source', async (t) => {
  const { keeper, add, query } = await keptLog(t);
  await add({ id: '1', event: 'A', userId: 'ann' }, { id: '2', event: 'A', userId: 'ann', source: 'other' });
  await keeper.erase([{ ids: { users: ['ann'], anonymous: [] }, sources: ['other'] }]);
  t.same(await query('SELECT message_id FROM events'), [['1']]);
});

t.test('erases users from files that a restored store does not list', async (t) => {
  const { keeper, another, add, log, holding, folder } = await keptLog(t);
  await add({ id: '1', event: 'A', userId: 'gone-7' }, { id: '2', event: 'A', userId: 'stays-8' });
  await another().stop();
  const [{ name } = { name: '' }] = (await log.state()).files;
  const unlisted = name.replace(/[^/]+$/, 'unlisted.parquet');
  copyFileSync(join(folder, name), join(folder, unlisted));
  await keeper.erase([{ ids: { users: ['gone-7'], anonymous: [] }, sources: null }]);
  t.same(holding('gone-7'), []);
  t.ok(holding('stays-8').includes(join(folder, unlisted)));
});

t.test('rewrites a file once for several requests', async (t) => {
  const { keeper, add, log, query } = await keptLog(t);
  await add(...['a', 'b', 'c'].map((userId) => ({ id: userId, event: 'A', userId })));
  await keeper.erase([
    { ids: { users: ['a'], anonymous: [] }, sources: null },
    { ids: { users: ['b'], anonymous: [] }, sources: null },
  ]);
  t.equal((await log.state()).version, 2, 'sealed, and rewritten');
  t.same(await query(EVERYBODY), [['c']]);
});

t.test('repeats later deletions after a restore, and spares users who have returned', async (t) => {
  const { keeper, add, advance, another, log, query } = await keptLog(t);
  await add({ id: '1', event: 'A', userId: 'ann' }, { id: '2', event: 'A', userId: 'bob' });
  await keeper.erase([{ ids: { users: ['ann'], anonymous: [] }, sources: null }]);
  // As the backup has it.
  await log.deleted(0);
  await add({ id: '3', event: 'A', userId: 'ann' });
  await another().start();
  t.same(await query(EVERYBODY), [['bob']]);
  advance(1_000);
  await add({ id: '4', event: 'A', userId: 'ann' });
  await log.deleted(0);
  await another().start();
  t.same(await query(EVERYBODY), [['ann'], ['bob']], 'what came later stays');
  t.equal(await log.deletions(), 1);
});
