import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
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
  uptime: () => systemClock.uptime() * 10,
  after: (ms, callback) => systemClock.after(ms / 10, callback),
};
const START = Date.now();
const LONGER_THAN_A_LEASE = 25_000;

let made = 0;
function message(): Message {
  made += 1;
  const body = JSON.stringify({ version: 1, type: 'track', event: 'e', n: made });
  return { type: 'track', messageId: `m${made}`, userId: null, integrations: null, body };
}

const postgres = await startPostgres();
t.teardown(() => postgres.stop());
const skip = postgres.pid === null ? 'the server is not ours to stop' : false;

/** The whole service on these databases, with sources that are connected to an inbox. */
async function serve(t: Test, ids: readonly string[], urls: readonly string[]) {
  const inbox = await startInbox(t);
  const sources = Object.fromEntries(ids.map((id) => [id, { connected: true }]));
  const config = loadConfig(writeConfig(t.testdir(), inbox, sources));
  const log = pino({ level: 'silent' });
  const app = await App.create({ ...config, store: { ...config.store, urls } }, { log, clock });
  t.teardown(() => app.close());
  await app.start({ collect: true, schedules: true });
  const ready = async () => (await fetch(`${app.address}/readyz`)).status;
  return { app, inbox, ready };
}

async function migrated(): Promise<string> {
  const url = await postgres.database();
  await migratePostgres(url);
  return url;
}

const longTime = () => new Promise<void>((resolve) => clock.after(LONGER_THAN_A_LEASE, resolve));

t.test('while the database is away intake answers 503, and then everything goes on by itself', { skip }, async (t) => {
  const { app, inbox, ready } = await serve(t, ['shop'], [await migrated()]);
  const post = async () => {
    const response = await fetch(`${app.address}/v1/track`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa('WK_shop:')}`, 'content-type': 'application/json' },
      body: JSON.stringify({ event: 'Hello', userId: 'u1' }),
    });
    const { code } = (await response.json()) as { readonly code?: string };
    return { status: response.status, code, isLater: response.headers.has('retry-after') };
  };
  t.match(await post(), { status: 200 });
  await inbox.arrived(1);
  // One is pending when the database goes.
  inbox.status = 503;
  t.match(await post(), { status: 200 });
  await postgres.halt();
  t.match(await post(), { status: 503, code: 'store_failed', isLater: true });
  t.equal(await ready(), 503);
  await longTime();
  t.match(await post(), { status: 503 });
  inbox.status = 200;
  await postgres.resume();
  while ((await post()).status !== 200);
  await inbox.arrived(3);
  t.equal(await ready(), 200);
  await app.close();
});

t.test('a shard that is down delays its own sources only, and goes on by itself', { skip }, async (t) => {
  const ids = Array.from({ length: 24 }, (_, n) => `source-${n}`);
  const urls = [`sqlite:${join(t.testdir({}), 'home.db')}`, await migrated()];
  const { app, inbox, ready } = await serve(t, ids, urls);
  const names = urls.map((url) => ({ name: redactUrl(url) }));
  const away = ids.filter((id) => shardOf(names, id) === names[1]);
  const here = ids.filter((id) => !away.includes(id));
  t.ok(here.length > 0 && away.length > 0);
  for (const id of ids) await app.accept(id, [message()]);
  await inbox.arrived(ids.length);

  await postgres.halt();
  for (const id of away) t.equal(await codeOf(app.accept(id, [message()])), 'store_failed');
  await longTime();
  for (const id of here) await app.accept(id, [message()]);
  await inbox.arrived(ids.length + here.length);
  t.equal(await ready(), 200);

  await postgres.resume();
  for (const id of away) while ((await codeOf(app.accept(id, [message()]))) !== null);
  await inbox.arrived(2 * ids.length);
  t.equal(new Set(inbox.webhooks.map(({ n }) => n)).size, 2 * ids.length);
});
