import { dirname, join } from 'node:path';
import t from 'tap';
import { systemClock } from '../../src/kernel/clock.ts';
import { backup } from '../../src/store/copy/backup.ts';
import { folderFiles } from '../../src/store/events/files.ts';
import { keptLog } from './helpers/kept-log.ts';

t.test('backs up the files of the log and its tail', async (t) => {
  const { store, keeper, add, another, folder: eventLog } = await keptLog(t);
  await add({ id: '1', event: 'A', userId: 'ann' });
  await keeper.stop();
  await add({ id: '2', event: 'A', userId: 'bob' });
  const base = dirname(eventLog);
  const folder = join(base, 'copy');
  const url = `sqlite:${join(base, 'rollcall.db')}`;
  const written = await backup({
    url,
    engines: [],
    store,
    keys: [],
    base,
    folder,
    eventLog: folderFiles(eventLog),
    clock: systemClock,
  });
  t.same(written, ['rollcall.db', 'events/']);
  await another().erase([{ ids: { users: ['ann', 'bob'], anonymous: [] }, sources: null }]);
  const restored = await keptLog(t, { folder });
  t.same(await restored.query('SELECT message_id FROM events ORDER BY 1'), [['1'], ['2']]);
});
