import cron from 'node-cron';
import { pino } from 'pino';
import t from 'tap';
import { App } from '../../src/app.ts';
import { parseConfig } from '../../src/config/load.ts';

t.test('leaves no server behind if stopped while starting', async (t) => {
  const text =
    'store: sqlite:./rollcall.db\nlisten: { host: 127.0.0.1, port: 0 }\nsources: [{ id: shop, writeKey: key }]\n';
  const config = parseConfig(text, { file: 'rollcall.yaml', folder: t.testdir(), env: {} });
  const app = await App.create(config, { log: pino({ level: 'silent' }) });
  const starting = app.start({ collect: true, schedules: true });
  await app.close();
  await starting;
  if (app.address !== null) await t.rejects(fetch(`${app.address}/healthz`));
  t.notOk(process.getActiveResourcesInfo().includes('TCPServerWrap'));
});

t.test('starts no schedules for a configuration that is reloaded while stopping', async (t) => {
  const text = `store: sqlite:./rollcall.db
sources: [{ id: shop, writeKey: key }]
audiences: [{ name: Yearly, source: shop, schedule: "0 0 1 1 *", sql: select 'u1' as user_id }]
`;
  const config = parseConfig(text, { file: 'rollcall.yaml', folder: t.testdir(), env: {} });
  const others = cron.getTasks().size;
  const app = await App.create(config, { log: pino({ level: 'silent' }) });
  await app.start({ collect: false, schedules: true });
  const earlier = app.reload(config);
  const closing = app.close();
  await t.rejects(app.reload(config), { code: 'stopping' });
  await Promise.all([earlier, closing]);
  t.equal(cron.getTasks().size, others, 'they would go on for ever');
});
