import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { App } from '../../src/app.ts';
import { loadConfig } from '../../src/config/load.ts';
import { type Clock, systemClock } from '../../src/kernel/clock.ts';
import { openStore } from '../../src/store/open.ts';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
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
const PASSWORDS = ['locked', 'rollcall_a', 'rollcall_b'].map((role) => `host all ${role} 127.0.0.1/32 scram-sha-256\n`);
writeFileSync(hba, `${PASSWORDS.join('')}host all all 127.0.0.1/32 trust\n`);
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
  const post = async () => {
    const response = await fetch(`${app.address}/v1/track`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa('WK_shop:')}`, 'content-type': 'application/json' },
      body: JSON.stringify({ event: 'Hello', userId: 'u1' }),
    });
    const { code } = (await response.json()) as { readonly code?: string };
    return { status: response.status, code, isLater: response.headers.has('retry-after') };
  };
  return { app, inbox, ready, post };
}

async function query(url: string, sql: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query(sql).finally(() => client.end());
}

const longTime = () => new Promise<void>((resolve) => clock.after(LONGER_THAN_A_LEASE, resolve));

t.test('answers 503 while the database is away, then continues automatically', { skip }, async (t) => {
  const { app, inbox, ready, post } = await serve(t, await postgres.store());
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

/** The blocks of SQL that the documentation gives for a rotation, word by word. */
const rotation = () => {
  const page = readFileSync(new URL('../../docs/deployment.md', import.meta.url), 'utf8');
  const [, section = ''] = /### A password of Postgres\n(.*?)\n## /s.exec(page) ?? [];
  return [...section.matchAll(/```sql\n(.*?)```/gs)].map(([, sql = '']) => sql);
};

t.test('rotates the password of the database as documented, without a refused request', async (t) => {
  const [change = '', prepare = '', begin = '', end = '', ...others] = rotation();
  t.same(others, []);
  const admin = await postgres.database();
  const as = (username: string, password: string) => Object.assign(new URL(admin), { username, password }).href;
  const name = new URL(admin).pathname.slice(1);
  await query(admin, `CREATE ROLE rollcall_a LOGIN PASSWORD 'OLD'; ALTER DATABASE ${name} OWNER TO rollcall_a`);
  await migratePostgres(as('rollcall_a', 'OLD'));
  await query(admin, `GRANT SELECT ON ALL TABLES IN SCHEMA information_schema TO rollcall_a`);
  let services = [await serve(t, as('rollcall_a', 'OLD')), await serve(t, as('rollcall_a', 'OLD'))];
  const statuses: number[] = [];
  const rounds = async () => {
    // More at once than there are sessions, so that new ones are opened.
    const posts = services.flatMap(({ post }) => Array.from({ length: 20 }, post));
    for (const { status } of await Promise.all(posts)) statuses.push(status);
  };
  const restart = async (url: string) => {
    for (const old of services) {
      services = [...services.filter((service) => service !== old), await serve(t, url)];
      await rounds();
      await old.app.close();
      await rounds();
    }
  };
  // A block is one transaction here. The page says to run it again after a deadlock.
  const run = (sql: string): Promise<unknown> =>
    query(admin, sql).catch((error: { code?: string }) => (error.code === '40P01' ? run(sql) : Promise.reject(error)));
  const play = async (sql: string) => {
    await rounds();
    await run(sql);
    await rounds();
  };
  await play(prepare);
  await restart(as('rollcall_a', 'OLD'));
  await play(begin);
  await restart(as('rollcall_b', 'NEW'));
  await play(end);
  t.same([...new Set(statuses)], [200]);
  await t.rejects(openAt(as('rollcall_a', 'OLD')), { code: 'store_failed', message: /password authentication/ });
  await migratePostgres(as('rollcall_b', 'NEW'));
  const store = await openAt(as('rollcall_b', 'NEW'));
  t.same(
    (await store.examine()).filter(({ state }) => state === 'failed'),
    [],
  );
  await store.close();

  await query(admin, change.replace('rollcall_a', 'rollcall_b').replace('NEW', 'NEWEST'));
  await t.rejects(openAt(as('rollcall_b', 'NEW')), { code: 'store_failed', message: /password authentication/ });
  await restart(as('rollcall_b', 'NEWEST'));
  statuses.length = 0;
  await rounds();
  t.same([...new Set(statuses)], [200]);
  for (const { app } of services) await app.close();
});
