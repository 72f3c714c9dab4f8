import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import { App } from '../../src/app.ts';
import { loadConfig } from '../../src/config/load.ts';
import { send } from '../events/helpers/logging-app.ts';
import { startS3 } from '../helpers/s3.ts';
import { until } from '../helpers/until.ts';
import { jsonLines, rollcall } from './helpers.ts';

t.test('keeps a log in a bucket, from the first event to a restored backup', async (t) => {
  const s3 = await startS3(t);
  const folder = t.testdir({ elsewhere: {} });
  const config = join(folder, 'rollcall.json');
  const content = {
    ...{ store: 'sqlite:./rollcall.db', listen: { port: 0 }, destinations: [], eventLog: s3.settings },
    sources: [{ id: 'shop', writeKey: 'key' }],
    audiences: [{ name: 'buyers', source: 'shop', when: { performed: 'Order' }, guard: { allowEmpty: true } }],
    engines: { lake: { type: 'duckdb', path: './audiences.duckdb' } },
  };
  writeFileSync(config, JSON.stringify(content));
  const app = await App.create(loadConfig(config), { log: pino({ level: 'silent' }) });
  await app.start({ collect: true, schedules: false });
  await send(
    app,
    ['ann', 'bob'].map((userId) => ({ type: 'track', event: 'Order', userId })),
  );
  await app.close();
  t.match([...s3.objects.keys()], [/log\.json$/, /^some\/log\/source=shop\/day=.*\.parquet$/]);

  const doctor = await rollcall(['doctor', '-c', config]);
  t.match(doctor, { code: 0, stdout: /ok +event log: s3:\/\/bucket\/some\/log can be written, read and listed/ });
  t.equal(s3.objects.size, 2, 'what it tried is removed');
  t.match(await rollcall(['sync', 'buyers', '--once', '-c', config]), { code: 0 });
  t.match(jsonLines(await rollcall(['events', '--json', '-c', config])), [{ events: 2, files: 1 }]);
  t.match(await rollcall(['events', '--verify', '-c', config]), { code: 0, stdout: /Every file is whole/ });
  t.match(await rollcall(['backup', join(folder, 'copy'), '-c', config]), { code: 0, stdout: /events-cache\// });

  const again = await App.create(loadConfig(config), { log: pino({ level: 'silent' }) });
  await again.start({ collect: true, schedules: false });
  const metrics = await again.metrics.registry.metrics();
  t.match(metrics, /rollcall_event_log_bucket_requests_total\{outcome="ok"\} [1-9]/);
  s3.away(true);
  const asked = s3.requests.length;
  await send(again, [{ type: 'track', event: 'Order', userId: 'cid' }]);
  const id = await again.regulations.file({ type: 'DELETE_ONLY', sources: null, userIds: ['ann'] });
  await until(async () => s3.requests.length > asked + 5);
  t.equal(s3.holding('ann').length, 1);
  s3.away(false);
  await until(async () => (await again.store.regulation(id))?.status === 'FINISHED');
  t.equal(s3.holding('ann').length, 0);
  await again.close();
  t.equal(s3.holding('cid').length, 1);

  s3.away(true);
  t.match(await rollcall(['doctor', '-c', config]), { code: 1, stdout: /FAILED +event log: bucket_failed: PUT / });
  s3.away(false);
  writeFileSync(config, JSON.stringify({ ...content, store: 'sqlite:./elsewhere/new.db' }));
  t.match(await rollcall(['sync', '-c', config]), {
    code: 1,
    stderr: /the event log s3:\/\/bucket\/some\/log has files/,
  });
  writeFileSync(config, JSON.stringify({ ...content, eventLog: { path: './events', region: 'eu' } }));
  t.match(await rollcall(['config', 'check', '-c', config]), { code: 2, stderr: /eventLog\.region is about a bucket/ });
});
