import { existsSync, readdirSync, renameSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import { App } from '../../src/app.ts';
import { loadConfig } from '../../src/config/load.ts';
import { destinations, LOCAL } from '../events/helpers/destinations.ts';
import { send } from '../events/helpers/logging-app.ts';
import { until } from '../helpers/until.ts';
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

t.test('refuses a folder without the files of the log, until a person says that they are lost', async (t) => {
  const folder = t.testdir({});
  const config = join(folder, 'rollcall.json');
  const content = { store: 'sqlite:./rollcall.db', listen: { port: 0 }, eventLog: {}, destinations: [] };
  writeFileSync(config, JSON.stringify({ ...content, sources: [{ id: 'shop', writeKey: 'key' }] }));
  const create = () => App.create(loadConfig(config), { log: pino({ level: 'silent' }) });
  const app = await create();
  await app.start({ collect: true, schedules: false });
  await send(app, [order('ann'), order('bob')]);
  await app.close();
  renameSync(join(folder, 'events'), join(folder, 'away'));
  const refused = await create();
  await t.rejects(refused.start({ collect: true, schedules: false }), { code: 'event_log_missing' });
  await refused.close();
  t.notOk(existsSync(join(folder, 'events')), 'no other folder takes its place');
  renameSync(join(folder, 'away'), join(folder, 'events'));
  const whole = await create();
  await whole.start({ collect: true, schedules: false });
  await send(whole, [order('cid')]);
  rmSync(join(folder, 'events'), { recursive: true });
  await whole.close();
  t.notOk(existsSync(join(folder, 'events')), 'nothing is sealed into another folder');
  t.match(await rollcall(['events', '--forget-missing', '-c', config]), { code: 2, stderr: /1 file with 2 events/ });
  t.match(await rollcall(['events', '--forget-missing', '--yes', '-c', config]), { code: 0, stdout: /files +0/ });
  const anew = await create();
  await anew.start({ collect: true, schedules: false });
  await anew.close();
  t.match(jsonLines(await rollcall(['events', '--json', '-c', config])), [{ events: 1, files: 1 }]);
  for (const left of ['rollcall.db', 'rollcall.db-id']) rmSync(join(folder, left));
  const start = ['start', '-c', config];
  t.match(await rollcall(start), { code: 1, stderr: /^store_missing: There is no store yet, but the event log/m });
});

t.test('sends past events to a destination, shows how far it is, and cancels', async (t) => {
  const folder = t.testdir({});
  const config = join(folder, 'rollcall.json');
  const receiver = await destinations(t);
  const content = {
    ...{ store: 'sqlite:./rollcall.db', listen: { port: 0 }, eventLog: {}, network: LOCAL },
    sources: [{ id: 'shop', writeKey: 'key' }],
  };
  const create = () => App.create(loadConfig(config), { log: pino({ level: 'silent' }) });
  const events = (...args: string[]) => rollcall(['events', ...args, '-c', config]);
  writeFileSync(config, JSON.stringify({ ...content, destinations: [] }));
  const app = await create();
  await app.start({ collect: true, schedules: false });
  await send(app, [order('ann'), order('bob')]);
  await app.close();
  writeFileSync(config, JSON.stringify({ ...content, destinations: [receiver.named('late')] }));
  const asked = ['send', '--to', 'late', '--since', '2020-01-01'];
  t.match(await events('send', '--to', 'lat', '--since', '2020-01-01'), { code: 2, stderr: /Did you mean late\?/ });
  t.match(await events(...asked, '--source', 'web'), { code: 2, stderr: /not connected to a source web/ });
  t.match(await events(...asked, '--event', 'Other'), { code: 0, stderr: /no such events/ });
  t.match(await events(...asked), { code: 2, stderr: /2 events received from 2020-.* will be sent to late.*--yes/ });
  t.match(await events('sends'), { code: 0, stderr: /No past events/ });
  t.match(await events(...asked, '--yes'), { code: 0, stdout: /late .*sending +0 +2/, stderr: /shows how far it is/ });
  const [begun] = jsonLines<{ readonly id: string }>(await events('sends', '--json'));
  t.match(begun, { destination: 'late', state: 'sending', total: 2, sent: 0 });
  const service = await create();
  await service.start({ collect: true, schedules: false });
  await until(async () => (await service.sends.find(begun?.id ?? '')).deliveries.delivered === 2);
  await service.close();
  t.match(await events('sends', begun?.id ?? ''), { stdout: /done +2 +2 +2 +0/ });
  t.same(
    receiver
      .to('late')
      .map(({ body }) => body['userId'])
      .sort(),
    ['ann', 'bob'],
  );
  const [again] = jsonLines<{ readonly id: string }>(await events(...asked, '--yes', '--json'));
  t.match(await events('cancel', again?.id ?? ''), { code: 0, stdout: /cancelled +0 +2/ });
  t.match(await events('cancel', 'unknown'), { code: 1, stderr: /There is no send unknown/ });
  t.match(await rollcall(['audit', '-c', config]), { stdout: /cli:\S+ +events\.cancel/ });
});
