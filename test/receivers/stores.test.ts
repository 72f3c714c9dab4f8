import t from 'tap';
import { memoryStore } from '../../receivers/index.ts';
import { sqliteStore } from '../../receivers/sqlite.ts';

const stores = { memory: () => memoryStore(), sqlite: () => sqliteStore(':memory:') };

for (const [name, make] of Object.entries(stores)) {
  t.test(`${name}: what is done stays done, what is released is new again`, async (t) => {
    const store = make();
    t.equal(await store.begin('a'), 'new');
    await store.release('a');
    t.equal(await store.begin('a'), 'new');
    await store.done('a');
    t.equal(await store.begin('a'), 'done');
    t.equal(await store.begin('b'), 'new');
  });

  t.test(`${name}: sequences never go back`, async (t) => {
    const store = make();
    t.equal(await store.advance('x', 2), true);
    t.equal(await store.advance('x', 1), false);
    t.equal(await store.advance('x', 2), true);
    t.equal(await store.advance('x', 3), true);
    t.equal(await store.advance('x', 2), false);
    t.equal(await store.advance('y', 1), true);
  });
}

t.test('memory: the oldest are forgotten beyond the limit', async (t) => {
  const store = memoryStore({ max: 2 });
  for (const key of ['a', 'b', 'c']) await store.done(key);
  t.equal(await store.begin('a'), 'new');
  t.equal(await store.begin('b'), 'done');
  t.equal(await store.begin('c'), 'done');
});

t.test('memory: far beyond the limit still the latest are known, and what is used again counts as late', async (t) => {
  const store = memoryStore({ max: 100 });
  for (let i = 0; i < 5000; i += 1) {
    await store.done(`k${i}`);
    await store.advance(`n${i}`, 5);
    await store.advance('often', 7);
  }
  const known = await Promise.all([4899, 4900, 4999].map((i) => store.begin(`k${i}`)));
  t.same(known, ['new', 'done', 'done']);
  t.equal(await store.advance('often', 6), false);
  t.equal(await store.advance('n4999', 4), false);
  t.equal(await store.advance('n4899', 4), true);
});

t.test('sqlite: two processes share a file, and a begun request is taken over after its lease', async (t) => {
  const file = `${t.testdir()}/receiver.db`;
  let time = 1000;
  const options = { lease: 100, now: () => time };
  const [one, two] = [sqliteStore(file, options), sqliteStore(file, options)];
  t.teardown(() => [one, two].forEach((store) => void store.close()));
  t.equal(one.begin('a'), 'new');
  t.equal(two.begin('a'), 'running');
  time += 100;
  t.equal(two.begin('a'), 'new');
  two.done('a');
  t.equal(one.begin('a'), 'done');
});

t.test('sqlite: what was stored survives a restart until it is done or given up', async (t) => {
  const file = `${t.testdir()}/receiver.db`;
  const before = sqliteStore(file);
  for (const key of ['a', 'b', 'c']) before.begin(key, { body: Buffer.from(key), url: '/hooks', secret: 1 });
  before.done('b');
  before.giveUp('c');
  before.close();
  const after = sqliteStore(file);
  t.teardown(() => after.close());
  t.same([...(await after.pending())], [{ key: 'a', body: Buffer.from('a'), url: '/hooks', secret: 1 }]);
  t.equal(after.begin('a', { body: Buffer.from('a'), url: '/', secret: undefined }), 'running');
  t.equal(after.begin('b'), 'done');
  t.equal(after.begin('c'), 'new', 'what was given up may be sent again');
});

t.test('sqlite: handled requests are forgotten after a while', async (t) => {
  let time = 0;
  const store = sqliteStore(':memory:', { keep: 10, now: () => time });
  t.teardown(() => store.close());
  store.begin('old');
  store.done('old');
  time = 100;
  for (let i = 0; i < 1000; i += 1) store.begin(`k${i}`);
  t.equal(store.begin('old'), 'new');
});
