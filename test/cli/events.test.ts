import { readdirSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import { App } from '../../src/app.ts';
import { loadConfig } from '../../src/config/load.ts';
import { send } from '../events/helpers/logging-app.ts';
import { jsonLines, rollcall } from './helpers.ts';

const order = (userId: string) => ({ type: 'track', event: 'Order Completed', userId });

t.test('counts the log, and names files that are missing, cut off or damaged', async (t) => {
  const folder = t.testdir({});
  const config = join(folder, 'rollcall.json');
  const content = {
    store: 'sqlite:./rollcall.db',
    listen: { port: 0 },
    sources: [{ id: 'shop', writeKey: 'key' }],
    destinations: [],
  };
  writeFileSync(config, JSON.stringify(content));
  await rollcall(['migrate', '-c', config]);
  t.match(await rollcall(['events', '-c', config]), { code: 2, stderr: /No event log is kept/ });
  writeFileSync(config, JSON.stringify({ ...content, eventLog: { path: './events' } }));
  for (const user of ['ann', 'bob', 'cid']) {
    const app = await App.create(loadConfig(config), { log: pino({ level: 'silent' }) });
    await app.start({ collect: true, schedules: false });
    await send(app, [order(user), order(user)]);
    if (user === 'ann') {
      t.match(jsonLines(await rollcall(['events', '--json', '-c', config])), [
        { events: 2, files: 0, unsealed: 2, bytes: 0, from: null, to: null },
      ]);
    }
    await app.close();
  }
  const [summary] = jsonLines(await rollcall(['events', '--json', '-c', config]));
  t.match(summary, { events: 6, files: 3, unsealed: 0, from: /^20/, to: /^20/ });
  t.match(await rollcall(['events', '--verify', '-c', config]), {
    code: 0,
    stdout: /^events +6\n(?:.*\n)*files +3\nnot sealed yet +0\nEvery file is whole\.\n$/,
  });
  const files = readdirSync(join(folder, 'events'), { recursive: true, withFileTypes: true })
    .filter(({ name }) => name.endsWith('.parquet'))
    .map(({ name, parentPath }) => join(parentPath, name));
  const [gone = '', cut = '', damaged = ''] = files;
  rmSync(gone);
  truncateSync(cut, 100);
  writeFileSync(damaged, Buffer.alloc(statSync(damaged).size, 'x'));
  const { code, stdout } = await rollcall(['events', '--verify', '--json', '-c', config]);
  t.equal(code, 1);
  const { faults } = JSON.parse(stdout) as { faults: { file: string; fault: string }[] };
  t.same(
    new Map(faults.map(({ file, fault }) => [join(folder, 'events', file), fault])),
    new Map([
      [gone, 'missing'],
      [cut, 'size'],
      [damaged, 'unreadable'],
    ]),
  );
});
