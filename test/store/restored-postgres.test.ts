import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { EventLogKeeper } from '../../src/events/keeper.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { backup } from '../../src/store/copy/backup.ts';
import { goOnRestored } from '../../src/store/copy/restored-postgres.ts';
import type { TableLog } from '../../src/store/event-log.ts';
import { folderFiles } from '../../src/store/events/files.ts';
import type { Store } from '../../src/store/port.ts';
import { migratePostgres } from '../../src/store/postgres/migrate.ts';
import { openPostgresStore } from '../../src/store/postgres/store.ts';
import {
  accept,
  attempt,
  audience,
  bodies,
  change,
  claim,
  DELIVERED,
  leaseOf,
  message,
  REFUSED,
  run,
  settle,
  settlement,
} from '../contract/store-fixture.ts';
import { dumped, query } from '../helpers/dump.ts';
import { startFastPostgres } from '../helpers/postgres.ts';

const server = await startFastPostgres();
const clock = systemClock;
const HOUR = 3_600_000;
const restoredOf = (url: string) => goOnRestored(url, () => {});

/** A store on a database of its own, closed with the test. */
async function openedStore(t: Test, url: string): Promise<Store> {
  const store = await openPostgresStore({ url, maxQueued: 1_000_000, clock });
  t.teardown(() => store.close());
  return store;
}

function tableOf({ events }: Store): TableLog {
  if (events.kind !== 'table') throw new Error('The log is in files.');
  return events;
}

const numberOf = (id: string) => Number.parseInt(id.slice(id.lastIndexOf('-') + 1), 36);
const prefixOf = (id: string) => id.slice(0, id.lastIndexOf('-'));

/** The last value of each sequence. */
async function sequencesOf(url: string): Promise<ReadonlyMap<string, number>> {
  const rows = await query<{ name: string; last: string | null }>(
    url,
    "SELECT sequencename AS name, last_value AS last FROM pg_sequences WHERE schemaname = 'rollcall'",
  );
  return new Map(rows.map(({ name, last }) => [name, Number(last ?? 0)]));
}

await t.test('gives out no id, after a restore, that the lost store gave out since the dump', async (t) => {
  const url = await server.store();
  const store = await openedStore(t, url);
  const owner = await store.join(HOUR);
  const fence = await leaseOf(store);
  await store.saveRun(run(), fence, audience());
  await store.accept({ messages: [change('k')], step: { run: 'run-1', fence, cursor: '1', epoch: 0 } });
  await store.releaseLease(fence);
  const held = await leaseOf(store, 'regulations', HOUR);
  await accept(store, message({ messageId: 'dead' }));
  const [first, ...others] = await claim(store, owner);
  const dead = [first!, ...others].find(({ messageId }) => messageId === 'dead')!;
  await store.settle(owner, [settlement(dead, REFUSED, [attempt({ at: clock.now() })])]);
  // `k` stays in flight, with a newer one behind it.
  await accept(store, change('k', { body: '"newest"' }), message({ messageId: 'taken' }));
  const restore = await dumped(url);

  // What the store does from here on is lost.
  await accept(store, ...Array.from({ length: 500 }, () => message({ destinations: ['late'] })));
  const late = await claim(store, owner, { destination: 'late', limit: 500 });
  const highest = Math.max(...late.map(({ id }) => numberOf(id)));
  await store.settle(
    owner,
    late.map((each) => settlement(each, REFUSED, [attempt({ at: clock.now() })])),
  );
  const given = await sequencesOf(url);

  const to = await server.store();
  await restore(to);
  await restoredOf(to);
  for (const [name, last] of await sequencesOf(to)) t.ok(last >= (given.get(name) ?? 0) + 2 ** 39, name);
  const again = await openedStore(t, to);
  t.ok((await leaseOf(again, 'regulations')).token > held.token, 'a lease of before has ended, and its fence is stale');
  t.ok((await leaseOf(again)).token > fence.token);
  const next = await again.join(HOUR);
  t.ok((await again.rescue()) > 0, 'what was in flight is free at once');
  t.match(await accept(again, message({ messageId: 'taken' })), { accepted: 0, duplicates: 1 });
  const crm = await claim(again, next);
  t.ok(bodies(crm).includes('"newest"'));
  t.ok(
    crm.every(({ id }) => prefixOf(id) === prefixOf(first!.id)),
    'under the keys of before',
  );
  await settle(again, next, crm, DELIVERED);
  await accept(again, message({ destinations: ['fresh'] }));
  const [fresh] = await claim(again, next, { destination: 'fresh' });
  t.equal(prefixOf(fresh!.id), prefixOf(first!.id), 'the store keeps its id');
  t.ok(numberOf(fresh!.id) > highest + 1_000_000);
});

await t.test('finds the attempts of a user on both sides of the ids that a restore leaves out', async (t) => {
  const url = await server.store();
  const store = await openedStore(t, url);
  const owner = await store.join(HOUR);
  const refuse = async (messageId: string) => {
    await accept(store, message({ messageId, userId: 'ada' }));
    const [claimed] = await claim(store, owner);
    await store.settle(owner, [settlement(claimed!, REFUSED, [attempt({ at: clock.now() })])]);
  };
  await refuse('before');
  await query(url, "SELECT setval('rollcall.attempt_id_seq', last_value + 1099511627776) FROM rollcall.attempt_id_seq");
  await refuse('after');
  const found = await store.attempts({ userId: 'ada', limit: 10 });
  t.same(
    found.map(({ messageId }) => messageId),
    ['after', 'before'],
  );
});

await t.test('removes users deleted since the dump from a restored log, and keeps those who returned', async (t) => {
  const folder = t.testdir({});
  const url = await server.store();
  let now = clock.now();
  const fail = (details: object) => {
    throw (details as { err?: unknown }).err;
  };
  const keeper = (of: Store) => {
    const parts = {
      files: folderFiles(join(folder, 'events')),
      keep: () => 400 * 24 * HOUR,
      log: { info() {}, warn: fail },
    };
    return new EventLogKeeper({ ...parts, store: of, live: of.live, clock: { ...clock, now: () => now } });
  };
  const log = (to: Store, messageId: string, userId: string) => {
    const at = new Date(now).toISOString();
    const body = JSON.stringify({ type: 'track', event: 'A', messageId, userId, timestamp: at, receivedAt: at });
    return to.accept({ messages: [message({ messageId, userId, body })], step: null, logged: true });
  };
  const users = async (of: string) =>
    (await query<{ id: string }>(of, 'SELECT message_id AS id FROM rollcall_events.events ORDER BY 1')).map(
      ({ id }) => id,
    );
  const store = await openedStore(t, url);
  await keeper(store).start();
  await log(store, '1', 'ann');
  await log(store, '2', 'bob');
  await log(store, '3', 'cid');
  const restore = await dumped(url);
  now += HOUR;
  await keeper(store).erase([{ ids: { users: ['ann', 'cid'], anonymous: [] }, sources: null }]);
  t.same(await users(url), ['2']);
  const to = await server.store();
  await restore(to);
  await restoredOf(to);
  t.same(await users(to), ['1', '2', '3'], 'the dump has them');
  const restored = await openedStore(t, to);
  now += HOUR;
  await log(restored, '4', 'cid');
  await keeper(restored).start();
  t.same(await users(to), ['2', '4'], 'what came later stays');
  const [hashes = ''] = readFileSync(join(folder, 'events', 'deletions.jsonl'), 'utf8').match(/"hashes":.*/) ?? [];
  t.ok(hashes !== '' && !hashes.includes('ann'), 'no id is kept');
});

await t.test('refuses a database without a store, or of a newer Rollcall, and leaves it as it is', async (t) => {
  const empty = await server.database();
  await t.rejects(restoredOf(empty), { code: 'bad_usage', message: /Restore the dump first/ });
  t.same(await query(empty, "SELECT 1 FROM pg_namespace WHERE nspname = 'rollcall'"), []);
  const newer = await server.store();
  await query(newer, 'INSERT INTO rollcall.migration VALUES (999)');
  const before = await sequencesOf(newer);
  await t.rejects(restoredOf(newer), { code: 'store_outdated', message: /newer Rollcall/ });
  t.same(await sequencesOf(newer), before);
});

await t.test("keeps the days of the log whatever the database's settings", async (t) => {
  const url = await server.database();
  const name = new URL(url).pathname.slice(1);
  for (const setting of ["DateStyle = 'SQL, DMY'", 'standard_conforming_strings = off']) {
    await query(url, `ALTER DATABASE ${name} SET ${setting}`);
  }
  await migratePostgres(url);
  const store = await openedStore(t, url);
  const log = tableOf(store);
  const at = '2026-03-02T12:00:00.000Z';
  const track = { type: 'track', event: 'A', messageId: '1', userId: 'ann', timestamp: at, receivedAt: at };
  await log.prepare(Date.parse(at), 0);
  const logged = message({ messageId: '1', userId: 'ann', body: JSON.stringify(track) });
  await store.accept({ messages: [logged], step: null, logged: true });
  t.match(await log.summary(), { events: 1, from: '2026-03-02', to: '2026-03-02' });
  await restoredOf(url);
  await log.dropBefore('2026-03-03');
  t.match(await log.summary(), { events: 0 });
});

await t.test('rollcall backup refuses a Postgres store, and names tools that back it up', async (t) => {
  const url = await server.store();
  const base = t.testdir({});
  const given = {
    url,
    engines: [],
    store: await openedStore(t, url),
    keys: [],
    base,
    folder: join(base, 'copy'),
    clock,
  };
  await t.rejects(backup(given), { code: 'bad_usage', message: /pg_dump.*migrate --restored/s });
});

await server.stop();
