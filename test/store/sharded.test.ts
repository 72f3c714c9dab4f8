import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { Store } from '../../src/store/port.ts';
import { shardedStore, shardOf } from '../../src/store/sharded.ts';
import { openSqliteStore } from '../../src/store/sqlite/store.ts';
import {
  accept,
  backlogOf,
  change,
  claim,
  DELIVERED,
  ids,
  leaseOf,
  message,
  REFUSED,
  run,
  StandingClock,
  settle,
} from '../contract/store-fixture.ts';

const TTL = 20_000;
const SOURCES = Array.from({ length: 40 }, (_, n) => `source-${n}`);

/** Files of a folder as shards: as many as asked for, the same ones each time. */
async function open(t: Test, folder: string, count: number): Promise<{ store: Store; shards: Store[] }> {
  const clock = new StandingClock().ahead();
  const shards = await Promise.all(
    Array.from({ length: count }, (_, n) =>
      openSqliteStore({ path: join(folder, `${n}.db`), maxQueued: 1_000, clock }),
    ),
  );
  const store = shardedStore(shards.map((each, n) => ({ name: `shard-${n}`, store: each })));
  t.teardown(() => store.close());
  return { store, shards };
}

t.test('a new shard takes sources over, and none moves between the others', async (t) => {
  const two = [{ name: 'a' }, { name: 'b' }];
  const three = [...two, { name: 'c' }];
  const moved = SOURCES.filter((source) => shardOf(two, source).name !== shardOf(three, source).name);
  t.ok(moved.length > 3 && moved.length < 30, `${moved.length} of 40 moved`);
  t.ok(moved.every((source) => shardOf(three, source).name === 'c'));
});

t.test('messages go by their source, and everything is claimed, settled and found wherever it is', async (t) => {
  const { store, shards } = await open(t, t.testdir({}), 2);
  await accept(store, ...SOURCES.map((source) => message({ source })));
  const parts = await Promise.all(shards.map(async (shard) => (await backlogOf(shard)).pending));
  t.ok(
    parts.every((pending) => pending > 5),
    parts.join(' and '),
  );
  t.same(await backlogOf(store), { pending: 40, dead: 0 });
  const owner = await store.join(TTL);
  const first = await claim(store, owner, { limit: 25 });
  const claims = [...first, ...(await claim(store, owner, { limit: 25 }))];
  t.equal(new Set(ids(claims)).size, 40);
  await settle(store, owner, claims.slice(0, 30), REFUSED);
  await settle(store, owner, claims.slice(30), DELIVERED);
  t.same(await backlogOf(store), { pending: 0, dead: 30 });
  const fresh = (await open(t, t.testdirName, 2)).store;
  const paged: string[] = [];
  for (let page = await fresh.deadLetters({ limit: 7 }); page.length > 0; ) {
    paged.push(...ids(page));
    page = await fresh.deadLetters({ limit: 7, after: page.at(-1)?.id ?? '' });
  }
  t.equal(new Set(paged).size, 30);
  t.equal(paged.length, 30);
  t.equal(await store.replay(paged.slice(0, 12).map((id) => ({ id, body: null }))), 12);
  t.equal(await store.drop(paged), 18);
  t.same(await backlogOf(store), { pending: 12, dead: 0 });
});

t.test('what was accepted before a shard was added is delivered all the same', async (t) => {
  const folder = t.testdir({});
  const before = await open(t, folder, 1);
  await accept(before.store, ...SOURCES.map((source) => message({ source })));
  await before.store.close();
  const { store } = await open(t, folder, 2);
  const owner = await store.join(TTL);
  t.equal((await claim(store, owner)).length, 40);
});

t.test('a run and its changes stay on the first shard, in one transaction', async (t) => {
  const { store, shards } = await open(t, t.testdir({}), 2);
  const fence = await leaseOf(store);
  await store.saveRun(run(), fence);
  const messages = SOURCES.map((source) => change('k', { source, conflict: source }));
  await store.accept({ messages, step: { run: 'run-1', fence, cursor: '40' } });
  t.same(await backlogOf(shards[0] as Store), { pending: 40, dead: 0 });
  t.match(await store.runProgress('run-1'), { deliveries: 40 });
});

t.test('a user is erased from all shards, and counted where a delivery is in flight', async (t) => {
  const { store } = await open(t, t.testdir({}), 2);
  await accept(store, ...SOURCES.map((source) => message({ source, userId: 'u1' })));
  const owner = await store.join(TTL);
  const held = await claim(store, owner, { limit: 3 });
  let cursor: string | null = null;
  let inFlight = 0;
  do ({ cursor, inFlight } = await store.erase(['u1'], null, cursor));
  while (cursor !== null);
  t.equal(inFlight, 3);
  t.same(await backlogOf(store), { pending: 3, dead: 0 });
  await store.suppress(['u1'], null, true);
  t.match(await accept(store, ...SOURCES.map((source) => message({ source, userId: 'u1' }))), { suppressed: 40 });
  await settle(store, owner, held, DELIVERED);
});

t.test('a shard that fails does not keep the others from being claimed', async (t) => {
  const { store, shards } = await open(t, t.testdir({}), 2);
  await accept(store, ...SOURCES.map((source) => message({ source })));
  const owner = await store.join(TTL);
  const left = (await backlogOf(shards[0] as Store)).pending;
  await shards[1]?.close();
  t.equal((await claim(store, owner)).length, left);
});
