import { once } from 'node:events';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import pg from 'pg';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { App } from '../../src/app.ts';
import { type Clock, systemClock } from '../../src/clock.ts';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import { redactUrl } from '../../src/destination.ts';
import { openShards } from '../../src/store/open.ts';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { shardOf } from '../../src/store/sharded.ts';
import { type Inbox, startInbox, writeConfig } from '../collect/running.ts';
import { accept, codeOf, message } from '../contract/store-fixture.ts';
import { startPostgres } from '../helpers/postgres.ts';

const SOURCES = Array.from({ length: 24 }, (_, n) => `source-${n}`);
const log = pino({ level: 'silent' });
/** Its timers are ten times as fast. */
const clock: Clock = { ...systemClock, after: (ms, callback) => systemClock.after(ms / 10, callback) };

const hba = join(t.testdir({}), 'hba.conf');
writeFileSync(hba, 'host all locked 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n');
chmodSync(hba, 0o644);
const postgres = await startPostgres([`hba_file = '${hba}'`]);
t.teardown(() => postgres.stop());
const skip = postgres.pid === null ? 'the server is not ours to stop' : false;

async function migrated(): Promise<string> {
  const url = await postgres.database();
  await migratePostgres(url);
  return url;
}

async function query(url: string, sql: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query(sql);
  await client.end();
}

const sqlite = (t: Test) => `sqlite:${join(t.testdir({}), 'here.db')}`;

/** A configuration on these databases, with sources that are connected to an inbox. */
function configOf(folder: string, inbox: Inbox, urls: readonly string[]): Config {
  const config = loadConfig(
    writeConfig(folder, inbox, Object.fromEntries(SOURCES.map((id) => [id, { connected: true }]))),
  );
  return { ...config, store: { ...config.store, urls } };
}

async function start(t: Test, config: Config): Promise<App> {
  const app = await App.create(config, { log, clock });
  t.teardown(() => app.close());
  await app.start({ collect: true, schedules: true });
  return app;
}

/** Sources of the database at this place of the list. */
function sourcesAt(urls: readonly string[], place: number): string[] {
  const names = urls.map((url) => ({ name: redactUrl(url) }));
  return SOURCES.filter((id) => shardOf(names, id) === names[place]);
}

async function post({ address }: App, source: string) {
  const response = await fetch(`${address}/v1/track`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`WK_${source}:`)}`, 'content-type': 'application/json' },
    body: JSON.stringify({ event: 'Hello', userId: 'u1' }),
  });
  const { code } = (await response.json()) as { readonly code?: string };
  return { status: response.status, code, isLater: response.headers.has('retry-after') };
}

async function ready({ address }: App) {
  const response = await fetch(`${address}/readyz`);
  return { status: response.status, away: ((await response.json()) as { readonly away?: string[] }).away };
}

t.test('a process starts while one of several databases is away, which joins once it is back', { skip }, async (t) => {
  const urls = [sqlite(t), await migrated()];
  const [here, away] = [sourcesAt(urls, 0), sourcesAt(urls, 1)];
  const inbox = await startInbox(t);
  const config = configOf(t.testdir({}), inbox, urls);
  const before = await openShards(config.store, systemClock);
  await accept(before.store, message({ source: away[0] as string, destinations: ['app'] }));
  await before.store.close();
  await postgres.halt();

  const app = await start(t, config);
  for (const id of here) t.match(await post(app, id), { status: 200 });
  for (const id of away) t.match(await post(app, id), { status: 503, code: 'store_failed', isLater: true });
  await inbox.arrived(here.length);
  t.same(await ready(app), { status: 200, away: ['store.urls[1]'] });

  await postgres.resume();
  // What it holds is delivered without anything being accepted.
  await inbox.arrived(here.length + 1);
  t.same(await ready(app), { status: 200, away: undefined });
  for (const id of away) t.match(await post(app, id), { status: 200 });
  await inbox.arrived(here.length + 1 + away.length);
});

t.test('a reload while a database is away counts for it once it is back', { skip }, async (t) => {
  const urls = [sqlite(t), await migrated()];
  const [before, after] = [await startInbox(t), await startInbox(t)];
  const folder = t.testdir({});
  const config = configOf(folder, before, urls);
  await postgres.halt();
  const app = await start(t, config);
  await app.reload(configOf(folder, after, urls));
  await postgres.resume();
  const [source = ''] = sourcesAt(urls, 1);
  while ((await post(app, source)).status !== 200);
  await after.arrived(1);
  t.equal(before.webhooks.length, 0);
});

/** As `configOf`, with an audience whose only tick is long past. */
function configWithAudience(folder: string, inbox: Inbox, urls: readonly string[]): Config {
  const file = writeConfig(folder, inbox, { shop: { connected: true } });
  const [source, schedule] = ['shop', '0 0 1 1 *'];
  const audience = { name: 'Big', source, schedule, sql: "select 'u1' as user_id" };
  const engines = { lake: { type: 'duckdb', path: './lake.duckdb' } };
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), engines, audiences: [audience] }));
  const config = loadConfig(file);
  return { ...config, store: { ...config.store, urls } };
}

const ENTERED = { type: 'identify', userId: 'u1', traits: { big: true } };

t.test('schedules begin once the first database is back', { skip }, async (t) => {
  const inbox = await startInbox(t);
  const config = configWithAudience(t.testdir({}), inbox, [await migrated(), sqlite(t)]);
  await postgres.halt();
  const app = await start(t, config);
  t.match(await ready(app), { away: ['store.urls[0]'] });
  await postgres.resume();
  await inbox.arrived(1);
  t.match(inbox.webhooks, [ENTERED]);
});

t.test('syncs run while another than the first database is away', { skip }, async (t) => {
  const inbox = await startInbox(t);
  const config = configWithAudience(t.testdir({}), inbox, [sqlite(t), await migrated()]);
  await postgres.halt();
  const app = await App.create(config, { log, clock });
  t.teardown(() => app.close());
  await app.start({ collect: false, schedules: false });
  inbox.status = 400;
  const [first] = await app.sync.run();
  t.match(await app.delivered((first?.runs ?? []).map(({ id }) => id)), { dead: 1 });
  inbox.status = 200;
  // It offers again what died.
  t.match(await app.sync.run(), [{ error: null }]);
  await inbox.arrived(1);
  t.match(inbox.webhooks, [ENTERED]);
  await postgres.resume();
});

t.test('a process stops in order while a database is away', { skip }, async (t) => {
  const urls = [sqlite(t), await migrated()];
  await postgres.halt();
  const app = await start(t, configOf(t.testdir({}), await startInbox(t), urls));
  await app.close();
  await postgres.resume();
  t.pass();
});

t.test('a database that comes back without its tables stays out until they are made', { skip }, async (t) => {
  const empty = await postgres.database();
  const urls = [sqlite(t), empty];
  const inbox = await startInbox(t);
  await postgres.halt();
  const app = await start(t, configOf(t.testdir({}), inbox, urls));
  await postgres.resume();
  const [source = ''] = sourcesAt(urls, 1);
  while ((await post(app, source)).code !== 'store_outdated');
  t.same(await ready(app), { status: 200, away: ['store.urls[1]'] });
  await migratePostgres(empty);
  t.match(await post(app, source), { status: 200 });
  await inbox.arrived(1);
});

t.test('a start ends when no database is there, the only one or any of several', { skip }, async (t) => {
  const [one, two] = [await migrated(), await migrated()];
  await postgres.halt();
  for (const urls of [[one], [one, two]]) {
    t.equal(await codeOf(openShards({ urls, maxQueued: 1 }, systemClock)), 'store_failed');
  }
  await postgres.resume();
});

t.test('a mistake about one of several databases ends the start with its error', { skip }, async (t) => {
  await query(await postgres.database(), "CREATE ROLE locked LOGIN PASSWORD 'right'");
  const newer = await migrated();
  await query(newer, 'INSERT INTO rollcall.migration VALUES (999)');
  const wrong = {
    password: new URL(await migrated()),
    user: new URL(await migrated()),
    name: new URL(await migrated()),
  };
  Object.assign(wrong.password, { username: 'locked', password: 'wrong' });
  wrong.user.username = 'nobody';
  wrong.name.pathname = '/no_such_database';
  const mistakes: readonly (readonly [url: string, code: string, says: RegExp])[] = [
    [wrong.password.href, 'store_failed', /password authentication failed/],
    [wrong.user.href, 'store_failed', /role "nobody" does not exist/],
    [wrong.name.href, 'store_failed', /"no_such_database" does not exist/],
    [await postgres.database(), 'store_outdated', /rollcall migrate/],
    [newer, 'store_outdated', /newer Rollcall/],
  ];
  const good = sqlite(t);
  for (const [url, code, says] of mistakes) {
    await t.rejects(openShards({ urls: [good, url], maxQueued: 1 }, systemClock), { code, message: says });
  }
});

t.test('a database is away too whose name is unknown, or that hangs up or says nothing', async (t) => {
  const sockets: Socket[] = [];
  const silent = createServer((socket) => void sockets.push(socket)).listen(0, '127.0.0.1');
  const rude = createServer((socket) => void socket.once('data', () => socket.end())).listen(0, '127.0.0.1');
  await Promise.all([once(silent, 'listening'), once(rude, 'listening')]);
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    silent.close();
    rude.close();
  });
  const at = (host: string, port: number) => `postgres://rollcall@${host}:${port}/rollcall`;
  const portOf = (server: typeof silent) => (server.address() as { port: number }).port;
  const good = sqlite(t);
  for (const url of [
    at('no-such-host.invalid', 5432),
    at('127.0.0.1', portOf(rude)),
    at('127.0.0.1', portOf(silent)),
  ]) {
    const { store, shards } = await openShards({ urls: [good, url], maxQueued: 1 }, systemClock);
    t.equal(shards.length, 2);
    await store.close();
  }
});
