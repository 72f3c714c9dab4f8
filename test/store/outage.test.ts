import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { App } from '../../src/app.ts';
import { loadConfig } from '../../src/config/load.ts';
import { type Clock, systemClock } from '../../src/kernel/clock.ts';
import { openStore } from '../../src/store/open.ts';
import { startInbox, writeConfig } from '../collect/running.ts';
import { codeOf } from '../contract/store-fixture.ts';
import { startFastPostgres } from '../helpers/postgres.ts';
import { until } from '../helpers/until.ts';

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

// Not in the checkout, which the server's user may not be let into.
const folder = mkdtempSync(join(tmpdir(), 'rollcall-hba-'));
chmodSync(folder, 0o755);
t.teardown(() => rmSync(folder, { recursive: true }));
const hba = join(folder, 'hba.conf');
writeFileSync(hba, 'host all locked 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n');
chmodSync(hba, 0o644);
const postgres = await startFastPostgres([`hba_file = '${hba}'`]);
t.teardown(() => postgres.stop());
const skip = postgres.pid === null ? 'the server is not ours to stop' : false;

/** The whole service on this database, with a source that is connected to an inbox. */
async function serve(t: Test, url: string) {
  const inbox = await startInbox(t);
  const config = loadConfig(writeConfig(t, inbox, { shop: { connected: true } }));
  const log = pino({ level: 'silent' });
  const app = await App.create({ ...config, store: { ...config.store, url } }, { log, clock });
  t.teardown(() => app.close());
  await app.start({ collect: true, schedules: true });
  const ready = async () => (await fetch(`${app.address}/readyz`)).status;
  return { app, inbox, ready };
}

async function query(url: string, sql: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query(sql);
  await client.end();
}

const longTime = () => new Promise<void>((resolve) => clock.after(LONGER_THAN_A_LEASE, resolve));

t.test('answers 503 while the database is away, then continues automatically', { skip }, async (t) => {
  const { app, inbox, ready } = await serve(t, await postgres.store());
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
  await until(async () => (await post()).status === 200);
  await inbox.arrived(3);
  t.equal(await ready(), 200);
  await app.close();
});

const openAt = (url: string) => openStore({ url, maxQueued: 1 }, systemClock);

t.test('fails to start while the database is away', { skip }, async (t) => {
  const url = await postgres.store();
  await postgres.halt();
  t.equal(await codeOf(openAt(url)), 'store_failed');
  await postgres.resume();
  await (await openAt(url)).close();
});

t.test('fails to start with the error of a wrong database setting', { skip }, async (t) => {
  await query(await postgres.database(), "CREATE ROLE locked LOGIN PASSWORD 'right'");
  const newer = await postgres.store();
  await query(newer, 'INSERT INTO rollcall.migration VALUES (999)');
  const wrong = {
    password: new URL(await postgres.store()),
    user: new URL(await postgres.store()),
    name: new URL(await postgres.store()),
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
  for (const [url, code, says] of mistakes) await t.rejects(openAt(url), { code, message: says });
});
