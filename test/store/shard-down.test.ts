import { join } from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import { App } from '../../src/app.ts';
import { type Clock, systemClock } from '../../src/clock.ts';
import { loadConfig } from '../../src/config/load.ts';
import { redactUrl } from '../../src/destination.ts';
import type { Message } from '../../src/message.ts';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { shardOf } from '../../src/store/sharded.ts';
import { startInbox, writeConfig } from '../collect/running.ts';
import { codeOf } from '../contract/store-fixture.ts';
import { startPostgres } from '../helpers/postgres.ts';

/** Ten times as fast as the world. */
const clock: Clock = {
  ...systemClock,
  now: () => START + Math.round(performance.now() * 10),
  monotonic: () => performance.now() * 10,
  after: (ms, callback) => systemClock.after(ms / 10, callback),
};
const START = Date.now();
const LONGER_THAN_A_LEASE = 40_000;

let made = 0;
function message(): Message {
  made += 1;
  const body = JSON.stringify({ version: 1, type: 'track', event: 'e', n: made });
  return { type: 'track', messageId: `m${made}`, userId: null, integrations: null, body };
}

t.test('a shard that is down delays its own sources only, and goes on by itself', async (t) => {
  const postgres = await startPostgres();
  t.teardown(() => postgres.stop());
  const inbox = await startInbox(t);
  const folder = t.testdir({});
  const ids = Array.from({ length: 24 }, (_, n) => `source-${n}`);
  const sources = Object.fromEntries(ids.map((id) => [id, { connected: true }]));
  const config = loadConfig(writeConfig(folder, inbox, sources));
  const urls = [`sqlite:${join(folder, 'home.db')}`, await postgres.database()];
  await migratePostgres(urls[1] ?? '');
  const app = await App.create(
    { ...config, store: { ...config.store, urls } },
    { log: pino({ level: 'silent' }), clock },
  );
  t.teardown(() => app.close());
  await app.start({ collect: true, schedules: false });
  const ready = async () => (await fetch(`${app.address}/readyz`)).status;

  const names = urls.map((url) => ({ name: redactUrl(url) }));
  const away = ids.filter((id) => shardOf(names, id) === names[1]);
  const here = ids.filter((id) => !away.includes(id));
  t.ok(here.length > 0 && away.length > 0);
  for (const id of ids) await app.accept(id, [message()]);
  await inbox.arrived(ids.length);

  await postgres.halt();
  for (const id of away) t.equal(await codeOf(app.accept(id, [message()])), 'store_failed');
  await new Promise<void>((resolve) => clock.after(LONGER_THAN_A_LEASE, resolve));
  for (const id of here) await app.accept(id, [message()]);
  await inbox.arrived(ids.length + here.length);
  t.equal(await ready(), 200);

  await postgres.resume();
  for (const id of away) while ((await codeOf(app.accept(id, [message()]))) !== null);
  await inbox.arrived(2 * ids.length);
  t.equal(new Set(inbox.webhooks.map(({ n }) => n)).size, 2 * ids.length);
});
