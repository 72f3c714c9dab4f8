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
  codeOf,
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

/** A process's claims from all shards, as its workers make and settle them. */
async function claimAll(shards: readonly Store[], limit = 100) {
  return Promise.all(
    shards.map(async (shard) => {
      const owner = await shard.join(TTL);
      return { shard, owner, claims: await claim(shard, owner, { limit }) };
    }),
  );
}

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
  const taken = await claimAll(shards);
  t.equal(new Set(ids(taken.flatMap(({ claims }) => claims))).size, 40);
  for (const { shard, owner, claims } of taken) {
    await settle(shard, owner, claims.slice(0, 5), DELIVERED);
    await settle(shard, owner, claims.slice(5), REFUSED);
  }
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
  const { shards } = await open(t, folder, 2);
  t.equal((await claimAll(shards)).flatMap(({ claims }) => claims).length, 40);
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
  const { store, shards } = await open(t, t.testdir({}), 2);
  await accept(store, ...SOURCES.map((source) => message({ source, userId: 'u1' })));
  const held = await claimAll(shards, 2);
  let cursor: string | null = null;
  let inFlight = 0;
  do ({ cursor, inFlight } = await store.erase(['u1'], null, cursor));
  while (cursor !== null);
  t.equal(inFlight, 4);
  t.same(await backlogOf(store), { pending: 4, dead: 0 });
  await store.suppress(['u1'], null, true);
  t.match(await accept(store, ...SOURCES.map((source) => message({ source, userId: 'u1' }))), { suppressed: 40 });
  for (const { shard, owner, claims } of held) await settle(shard, owner, claims, DELIVERED);
});

t.test('an endpoint is resumed on all shards, and paused where one of them says so', async (t) => {
  const { store, shards } = await open(t, t.testdir({}), 2);
  const state = { endpoint: 'e1', destination: 'crm', pausedAt: null, deadSince: null };
  await shards[1]?.markEndpoint({ ...state, pausedAt: 7 });
  await shards[0]?.markEndpoint({ ...state, deadSince: 5 });
  t.same(await store.endpoints(), [{ ...state, pausedAt: 7, deadSince: 5 }]);
  await store.markEndpoint(state);
  t.same(
    (await store.endpoints()).filter(({ pausedAt, deadSince }) => pausedAt !== null || deadSince !== null),
    [],
  );
});

t.test('the store answers as long as one shard does', async (t) => {
  const { store, shards } = await open(t, t.testdir({}), 2);
  await shards[0]?.close();
  await store.ping();
  await shards[1]?.close();
  t.equal(await codeOf(store.ping()), 'store_closed');
});
