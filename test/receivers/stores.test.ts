import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type pg from 'pg';
import t, { type Test } from 'tap';
import { memoryStore, type Opening, type ReceiverStore, type StoredRequest } from '../../receivers/index.ts';
import { type PostgresStore, postgresStore } from '../../receivers/postgres.ts';
import { type SqliteStore, sqliteStore } from '../../receivers/sqlite.ts';
import {
  type StoreFixture,
  storeCases,
  type TransactionFixture,
  transactionCases,
} from '../../receivers/store-contract.ts';
import { appPool, startFastPostgres } from '../helpers/postgres.ts';
import { manualClock } from './helpers/clock.ts';

const server = await startFastPostgres();
t.teardown(() => server.stop());

const fixtures: Record<string, (t: Test) => Promise<StoreFixture>> = {
  async memory() {
    const clock = manualClock();
    const store = memoryStore({ now: clock.now });
    return { store, other: store, advance: clock.advance };
  },
  async sqlite(t) {
    const clock = manualClock();
    const file = `${t.testdir()}/receiver.db`;
    const [store, other] = [0, 1].map(() => sqliteStore(file, { now: clock.now }));
    t.teardown(() => [store, other].forEach((each) => void each?.close()));
    return { store: store as ReceiverStore, other: other as ReceiverStore, advance: clock.advance };
  },
  async postgres(t) {
    const pools = await Promise.all([0, 1].map(() => appPool(url)));
    t.teardown(() => Promise.all(pools.map((pool) => pool.end())));
    const [pool] = pools as [pg.Pool, pg.Pool];
    await pool.query(
      'drop table if exists rollcall_receiver, test_clock; create table test_clock as select 1000::bigint as ms',
    );
    const time = '(select ms from test_clock)';
    const [store, other] = pools.map((pool) => postgresStore({ pool, time }));
    await store?.migrate();
    return {
      store: store as ReceiverStore,
      other: other as ReceiverStore,
      advance: async (ms) => void (await pool.query('update test_clock set ms = ms + $1', [ms])),
    };
  },
};
const url = await server.database();

t.test("sqlite: names the file that can't be opened", (t) => {
  for (const path of ['/nonexistent/x.db', import.meta.dirname]) {
    t.throws(() => sqliteStore(path), { message: `the store ${path} can't be opened: ` });
  }
  t.end();
});

for (const [name, open] of Object.entries(fixtures)) {
  for (const each of storeCases) {
    t.test(`${name}: ${each.name}`, async (t) => {
      await each.run(await open(t));
      t.pass('every assertion of the case held');
    });
  }
}

const transactions: Record<string, (t: Test) => Promise<TransactionFixture>> = {
  async sqlite(t) {
    const fixture = await (fixtures['sqlite'] as (t: Test) => Promise<StoreFixture>)(t);
    const store = fixture.store as SqliteStore;
    store.transaction({ opening: undefined }, (db) => db.exec('create table written (text text)'));
    return {
      ...fixture,
      async write(each, opening, text, failure) {
        (each as SqliteStore).transaction({ opening }, (db) => {
          db.prepare('insert into written values (?)').run(text);
          if (failure !== undefined) throw failure;
        });
      },
      written: async () =>
        store.transaction({ opening: undefined }, (db) =>
          db
            .prepare('select text from written order by rowid')
            .all()
            .map(({ text }) => String(text)),
        ),
    };
  },
  async postgres(t) {
    const fixture = await (fixtures['postgres'] as (t: Test) => Promise<StoreFixture>)(t);
    const pool = appPool(url);
    t.teardown(() => pool.end());
    await pool.query('drop table if exists written; create table written (at serial, text text)');
    return {
      ...fixture,
      write: (each, opening, text, failure) =>
        (each as PostgresStore).transaction({ opening }, async (client: pg.PoolClient) => {
          await client.query('insert into written (text) values ($1)', [text]);
          if (failure !== undefined) throw failure;
        }),
      written: async () => (await pool.query('select text from written order by at')).rows.map(({ text }) => text),
    };
  },
};

for (const [name, open] of Object.entries(transactions)) {
  for (const each of transactionCases) {
    t.test(`${name}: ${each.name}`, async (t) => {
      await each.run(await open(t));
      t.pass('every assertion of the case held');
    });
  }
}

t.test('refuses times that are no numbers, as those of a configuration, at once', async (t) => {
  const pool = appPool(url);
  t.teardown(() => pool.end());
  const made = {
    memory: (times: object) => memoryStore(times),
    sqlite: (times: object) => sqliteStore(':memory:', times),
    postgres: (times: object) => postgresStore({ pool, ...times }),
  };
  for (const [name, make] of Object.entries(made)) {
    for (const lease of ['30s', 0]) {
      t.throws(() => make({ lease }), { name: 'TypeError', message: `lease is a number above 0, not ${lease}` }, name);
    }
    if (name === 'memory') continue;
    t.throws(() => make({ keep: '1d' }), { name: 'TypeError', message: 'keep is a number of 0 or more, not 1d' }, name);
  }
});

t.test('refuses a store without a pool or a file at once', async (t) => {
  const pool = appPool(url);
  t.teardown(() => pool.end());
  for (const given of [undefined, {}, pool, { pool: url }, { pool: {} }])
    t.throws(() => postgresStore(given as never), { name: 'TypeError', message: /^pool is a Pool of pg: / });
  for (const given of [undefined, {}, ''])
    t.throws(() => sqliteStore(given as never), { name: 'TypeError', message: /^give the file of the store/ });
});

t.test('sqlite: refuses a transaction whose work returns a promise, and writes nothing', async (t) => {
  const store = sqliteStore(':memory:');
  t.teardown(() => store.close());
  store.transaction({ opening: undefined }, (db) => db.exec('create table written (text text)'));
  const later = () =>
    store.transaction({ opening: undefined }, async (db) => {
      db.exec("insert into written values ('a')");
      throw new Error('too late to matter');
    });
  t.throws(later, TypeError);
  t.same(
    store.transaction({ opening: undefined }, (db) => db.prepare('select * from written').all()),
    [],
  );
});

const opening = (key: string, holder = key): Opening => ({ key, change: undefined, holder });
const done = (store: ReceiverStore, key: string) => {
  store.begin(opening(key));
  store.done(opening(key));
};
const sequenced = (name: string, sequence: number): Opening => ({
  key: undefined,
  change: { name, sequence },
  holder: 'any',
});
const advance = (store: ReceiverStore, name: string, sequence: number) => {
  const state = store.begin(sequenced(name, sequence));
  if (state === 'new') store.done(sequenced(name, sequence));
  return state;
};

t.test('memory: forgets the oldest beyond the limit', async (t) => {
  const store = memoryStore({ max: 2 });
  for (const key of ['a', 'b', 'c']) done(store, key);
  t.equal(store.begin(opening('a')), 'new');
  t.equal(store.begin(opening('b')), 'done');
  t.equal(store.begin(opening('c')), 'done');
});

t.test('memory: keeps the latest far beyond the limit, and counts what is used again as late', async (t) => {
  const store = memoryStore({ max: 100 });
  for (let i = 0; i < 5000; i += 1) {
    done(store, `k${i}`);
    advance(store, `n${i}`, 5);
    advance(store, 'often', 7);
  }
  t.same(
    [4899, 4900, 4999].map((i) => store.begin(opening(`k${i}`))),
    ['new', 'done', 'done'],
  );
  t.equal(advance(store, 'often', 6), 'stale');
  t.equal(advance(store, 'n4999', 4), 'stale');
  t.equal(advance(store, 'n4899', 4), 'new');
});

t.test('sqlite: forgets handled requests after a while', async (t) => {
  let time = 0;
  const store = sqliteStore(':memory:', { keep: 10, lease: 10, now: () => time });
  t.teardown(() => store.close());
  done(store, 'old');
  time = 100;
  for (let i = 0; i < 1000; i += 1) store.begin(opening(`k${i}`));
  t.equal(store.begin(opening('old')), 'new');
});

t.test('sqlite: lets only the owner of its file read it', { skip: process.platform === 'win32' }, async (t) => {
  const file = `${t.testdir()}/receiver.db`;
  const store = sqliteStore(file);
  t.teardown(() => store.close());
  done(store, 'a');
  for (const suffix of ['', '-wal', '-shm']) t.equal(statSync(file + suffix).mode & 0o777, 0o600, suffix);
});

t.test('postgres: accepts another name and schema for a table, and nothing else', async (t) => {
  const pool = appPool(url);
  t.teardown(() => pool.end());
  await pool.query('create schema if not exists crm');
  const store = postgresStore({ pool, table: 'crm.webhooks' });
  await Promise.all([store.migrate(), store.migrate()]);
  t.equal(await store.begin(opening('a')), 'new');
  t.equal((await pool.query('select count(*)::int as count from crm.webhooks')).rows[0].count, 1);
  for (const table of ['a b', 'x; drop table y', '"quoted"', ''])
    t.throws(() => postgresStore({ pool, table }), TypeError);
});

t.test('postgres: forgets handled requests after a while, but not sequences', async (t) => {
  const pool = appPool(url);
  t.teardown(() => pool.end());
  const store = postgresStore({ pool, table: 'pruned', keep: 0 });
  await store.migrate();
  const first = { ...opening('old'), change: { name: 'club of u1', sequence: 4 } };
  await store.begin(first);
  await store.done(first);
  for (let i = 0; i < 1000; i += 1) await store.begin(opening('the same'));
  t.equal(await store.begin(opening('old')), 'new');
  t.equal(await store.begin({ ...opening('late'), change: { name: 'club of u1', sequence: 3 } }), 'stale');
});

const stored = (key: string, user?: string): StoredRequest => ({
  key,
  body: Buffer.from(key),
  url: '/hooks',
  secret: 1,
  scope: 'crm|',
  user,
});

t.test('sqlite: keeps stored requests over a restart until they are done or given up', async (t) => {
  const file = `${t.testdir()}/receiver.db`;
  const before = sqliteStore(file);
  for (const key of ['a', 'b', 'c']) t.same(before.keep([stored(key)]), [true]);
  done(before, 'b');
  before.giveUp('c', 'boom');
  before.close();
  const after = sqliteStore(file);
  t.teardown(() => after.close());
  t.same(await after.due(10, [], 'crm'), [{ ...stored('a'), tries: 0, crashes: 0 }]);
  for (const key of ['a', 'b']) t.same(after.keep([stored(key)]), [false]);
  t.match(await after.givenUp(10), [{ ...stored('c'), reason: 'boom' }]);
  t.same(after.keep([stored('c')]), [true], 'what was given up may be sent again');
});

t.test('sqlite: retries given-up requests on demand', async (t) => {
  const store = sqliteStore(':memory:');
  t.teardown(() => store.close());
  for (const key of ['a', 'b', 'c']) {
    store.keep([stored(key)]);
    store.tried(key);
    store.giveUp(key, 'boom');
  }
  t.equal(store.retry(['b']), 1);
  t.match(await store.due(10, [], 'crm'), [{ key: 'b', tries: 0 }]);
  t.equal(store.retry(), 2);
  t.same(await store.givenUp(10), []);
});

t.test('sqlite: finds the oldest of each user due unless it is at work, and keeps others from waiting', async (t) => {
  const store = sqliteStore(':memory:', { now: () => 0 });
  t.teardown(() => store.close());
  for (const [key, user] of [
    ['a1', 'a'],
    ['a2', 'a'],
    ['b1', 'b'],
    ['none', undefined],
    ['b2', 'b'],
  ] as const) {
    store.keep([stored(key, user)]);
  }
  const keys = async (working: string[]) => (await store.due(10, working, 'crm')).map(({ key }) => key);
  t.same(await keys([]), ['a1', 'b1', 'none']);
  t.same(await keys(['a1']), ['b1', 'none']);
  done(store, 'a1');
  t.same(await keys([]), ['a2', 'b1', 'none']);
  store.tryAgain('b1', 5);
  t.same(await keys([]), ['a2', 'none'], 'what came later waits for the next try of what came first');
});

t.test('sqlite: works on stored requests in one process, and in another after its lease', async (t) => {
  const file = `${t.testdir()}/receiver.db`;
  let time = 0;
  const [one, two] = [0, 1].map(() => sqliteStore(file, { lease: 100, now: () => time })) as [
    ReturnType<typeof sqliteStore>,
    ReturnType<typeof sqliteStore>,
  ];
  t.teardown(() => [one, two].forEach((store) => void store.close()));
  t.equal(one.own('one', 'crm'), true);
  one.keep([stored('a')]);
  one.keep([stored('b')]);
  one.tried('a');
  t.equal(two.own('two', 'crm'), false);
  time = 99;
  t.equal(one.own('one', 'crm'), true, 'the owner prolongs its lease');
  time = 198;
  t.equal(two.own('two', 'crm'), false);
  time = 199;
  t.equal(two.own('two', 'crm'), true);
  t.equal(one.own('one', 'crm'), false);
  t.match(await two.due(10, [], 'crm'), [
    { key: 'a', tries: 1, crashes: 1 },
    { key: 'b', tries: 0, crashes: 0 },
  ]);
  two.disown('two', 'crm');
  t.equal(one.own('one', 'crm'), true);
  t.match(await one.due(10, [], 'crm'), [{ key: 'a', crashes: 1 }, { key: 'b' }], 'leaving in good order is no crash');
});

/** A process that works on what is kept, in the middle of it. */
const worker = `
import { sqliteStore } from ${JSON.stringify(new URL('../../receivers/sqlite.ts', import.meta.url).href)};
const store = sqliteStore(process.argv[2]);
const change = { name: 'u1 in vips', sequence: 1 };
store.keep([{ key: 'a', body: Buffer.from('{}'), url: '/', secret: 0, scope: '|', user: 'u1' }]);
const said = [store.own('first', ''), store.begin({ key: 'a', change, holder: 'first-1' })];
store.tried('a');
console.log(...said);
setInterval(() => {}, 1_000);
`;

t.test('sqlite: takes over from a killed process at once, from a suspended one after its lease', async (t) => {
  const folder = t.testdir({ 'worker.mjs': worker });
  const file = `${folder}/receiver.db`;
  const child = spawn(process.execPath, [`${folder}/worker.mjs`, file], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.teardown(() => void child.kill('SIGKILL'));
  const [said] = await once(child.stdout, 'data');
  t.equal(String(said), 'true new\n');
  let time = Date.now();
  const [two, three] = [0, 1].map(() => sqliteStore(file, { now: () => time })) as [SqliteStore, SqliteStore];
  t.teardown(() => [two, three].forEach((store) => void store.close()));
  const opening = { key: 'a', change: { name: 'u1 in vips', sequence: 2 }, holder: 'two-1' };
  t.equal(two.own('two', ''), false, 'it lives');
  t.equal(two.begin(opening), 'running');
  child.kill('SIGSTOP');
  t.equal(two.own('two', ''), false, 'it may go on');
  time += 61_000;
  t.equal(two.own('two', ''), true, 'its lease is over');
  t.equal(three.own('three', ''), false);
  two.disown('two', '');
  t.equal(three.own('three', ''), true);
  t.equal(two.own('two', ''), false, 'nobody is seen to have ended whose lock another one has');
  time += 61_000;
  child.kill('SIGKILL');
  await once(child, 'exit');
  t.equal(three.own('three', ''), true, 'and now it has the lock');
  t.equal(two.own('two', ''), false);
});

t.test("sqlite: frees a killed process's requests at once", async (t) => {
  const folder = t.testdir({ 'worker.mjs': worker });
  const file = `${folder}/receiver.db`;
  const child = spawn(process.execPath, [`${folder}/worker.mjs`, file], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  const store = sqliteStore(file);
  t.teardown(() => store.close());
  child.kill('SIGKILL');
  await once(child, 'exit');
  t.equal(store.own('two', ''), true);
  t.match(await store.due(10, [], ''), [{ key: 'a', tries: 1, crashes: 1 }]);
  t.equal(store.begin({ key: 'a', change: { name: 'u1 in vips', sequence: 1 }, holder: 'two-1' }), 'new');
  t.equal(store.own('a receiver beside it', ''), false);
  t.equal(store.own('two', ''), true);
  store.disown('two', '');
  const other = sqliteStore(file);
  t.teardown(() => other.close());
  t.equal(other.own('three', ''), true);
  if (process.platform !== 'win32') t.equal(statSync(`${file}-owner`).mode & 0o777, 0o600);
});

t.test('postgres: survives broken connections, idle or at work', async (t) => {
  const application_name = 'breaks';
  const pool = appPool(url, { application_name });
  const admin = appPool(url);
  t.teardown(() => Promise.all([pool.end(), admin.end()]));
  const breakAll = () =>
    admin.query('select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1', [
      application_name,
    ]);
  const store = postgresStore({ pool });
  await store.migrate();
  // Not by events.once, which listens to errors too.
  const removed = new Promise((resolve) => pool.once('remove', resolve));
  await breakAll();
  await removed;
  const broken = store.transaction({ opening: undefined }, async (client: pg.PoolClient) => {
    const ended = new Promise<void>((resolve) => client.once('end', resolve));
    await breakAll();
    await ended;
    await client.query('select 1');
  });
  await t.rejects(broken);
  t.equal(await store.begin({ key: 'after', change: undefined, holder: 'h' }), 'new');
});

t.test('postgres: accepts concurrent requests in a database that is serializable by default', async (t) => {
  const pool = appPool(url, { options: '-c default_transaction_isolation=serializable' });
  t.teardown(() => pool.end());
  const store = postgresStore({ pool, table: 'serial' });
  await store.migrate();
  const each = async (i: number) => {
    const given = { ...opening(`k${i}`), change: { name: `n${i}`, sequence: 1 } };
    return [await store.begin(given), await store.done(given)];
  };
  const ended = await Promise.all(Array.from({ length: 200 }, (_, i) => each(i)));
  t.same(ended, Array(200).fill(['new', true]));
});

t.test('sqlite: takes nothing after its file was removed, and makes no other for an inbox that was lost', (t) => {
  const file = `${t.testdir({})}/receiver.db`;
  const store = sqliteStore(file);
  const kept = (key: string): readonly StoredRequest[] => [
    { key, body: Buffer.from('{}'), url: '/', scope: 's', secret: undefined, user: undefined },
  ];
  store.own('process', 'crm');
  t.same(store.keep(kept('first')), [true]);
  renameSync(file, `${file}.away`);
  t.throws(() => store.keep(kept('second')), /was removed or replaced: put its file back, and restart/);
  t.throws(() => store.begin({ key: 'third', change: undefined, holder: 'h' }), /was removed or replaced/);
  store.close();
  const reopened = () => sqliteStore(file).close();
  t.throws(reopened, /is gone, with the requests that it kept; receiver\.db-owner-\w+ is still there/);
  t.notOk(existsSync(file));
  renameSync(`${file}.away`, file);
  t.doesNotThrow(reopened);
  rmSync(file);
  for (const name of readdirSync(dirname(file))) rmSync(join(dirname(file), name));
  t.doesNotThrow(reopened, 'a new one is made if a person wants it');
  t.end();
});
