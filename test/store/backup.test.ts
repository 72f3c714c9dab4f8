import { spawnSync } from 'node:child_process';
import { existsSync, lstatSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { type Clock, systemClock } from '../../src/kernel/clock.ts';
import { backup } from '../../src/store/copy/backup.ts';
import { openSqliteStore } from '../../src/store/sqlite/store.ts';
import { accept, audience, backlogOf, claim, codeOf, leaseOf, message, run } from '../contract/store-fixture.ts';

/** As of an engine's file that nobody writes to. */
const engineFile = (path: string) => ({ path, hold: (work: () => Promise<void>) => work() });

const numberOf = (id = '') => Number.parseInt(id.slice(id.lastIndexOf('-') + 1), 36);

t.test("copies a store while messages arrive, consistent with the engine's copy", async (t) => {
  const folder = t.testdir({ 'lake.duckdb': 'snapshot of version 2', 'lake.duckdb.wal': 'log' });
  const path = join(folder, 'store.db');
  const store = await openSqliteStore({ path, maxQueued: 100_000, clock: systemClock });
  t.teardown(() => store.close());
  const fence = await leaseOf(store);
  await store.saveRun(run(), fence, audience());
  await store.releaseLease(fence);
  await accept(store, ...Array.from({ length: 500 }, () => message()));
  let going = true;
  const load = (async () => {
    while (going) await accept(store, message());
  })();
  const target = join(folder, 'copy', 'of today');
  const engines = [engineFile(join(folder, 'lake.duckdb')), engineFile(join(folder, 'not made yet.duckdb'))];
  const given = {
    url: `sqlite:${path}`,
    engines,
    store,
    keys: ['big_spenders', 'vip'],
    base: folder,
    clock: systemClock,
  };
  const written = await backup({ ...given, folder: target });
  going = false;
  await load;
  t.same(written, ['store.db', 'lake.duckdb.wal', 'lake.duckdb']);
  t.equal(readFileSync(join(target, 'lake.duckdb'), 'utf8'), 'snapshot of version 2');
  t.equal(readFileSync(join(target, 'store.db'))[18], 1, 'so that a log beside it is known to belong to another file');
  const restored = await openSqliteStore({ path: join(target, 'store.db'), maxQueued: 100, clock: systemClock });
  t.teardown(() => restored.close());
  t.ok((await backlogOf(restored)).pending >= 500);
  t.match(await restored.audience('big_spenders'), { version: 2 });
  await accept(restored, message({ destinations: ['fresh'] }));
  const [fresh] = await claim(restored, await restored.join(60_000), { destination: 'fresh' });
  const last = (await claim(store, await store.join(60_000), { limit: 100_000 })).at(-1);
  t.ok(numberOf(fresh?.id) > numberOf(last?.id) + 1_000_000, 'no id comes again that was given out after the backup');
  t.ok(await store.takeLease('sync:vip', 1_000), 'syncs may run again');
  t.equal(await codeOf(backup({ ...given, keys: [], folder: target })), 'bad_usage', 'nothing is written over');
});

t.test('waits for a running sync', async (t) => {
  const folder = t.testdir({ 'lake.duckdb': 'snapshot' });
  const path = join(folder, 'store.db');
  const store = await openSqliteStore({ path, maxQueued: 100, clock: systemClock });
  t.teardown(() => store.close());
  const fence = await leaseOf(store);
  const target = join(folder, 'copy');
  // It asks again after a pause: that is when the sync ends here.
  const clock: Clock = {
    ...systemClock,
    after(ms, callback) {
      if (ms > 1_000) return () => undefined;
      t.notOk(existsSync(join(target, 'lake.duckdb')), 'nothing was copied while the sync ran');
      void store.releaseLease(fence).then(callback);
      return () => undefined;
    },
  };
  const written = await backup({
    url: `sqlite:${path}`,
    engines: [engineFile(join(folder, 'lake.duckdb'))],
    store,
    keys: ['big_spenders'],
    base: folder,
    folder: target,
    clock,
  });
  t.equal(written.length, 2);
});

t.test('makes the later of two backups to one folder wait, and refuses it once the other is complete', async (t) => {
  const folder = t.testdir({ 'lake.duckdb': 'snapshot' });
  const path = join(folder, 'store.db');
  const store = await openSqliteStore({ path, maxQueued: 100, clock: systemClock });
  t.teardown(() => store.close());
  const target = join(folder, 'copy');
  const given = { url: `sqlite:${path}`, store, keys: [], base: folder, folder: target, clock: systemClock };
  const waits = Promise.withResolvers<string>();
  const ended = Promise.withResolvers<void>();
  let later: Promise<unknown> = Promise.resolve();
  const engine = {
    path: join(folder, 'lake.duckdb'),
    async hold(work: () => Promise<void>) {
      later = codeOf(backup({ ...given, engines: [], onWait: waits.resolve })).finally(ended.resolve);
      await Promise.race([waits.promise, ended.promise]);
      await work();
    },
  };
  t.same(await backup({ ...given, engines: [engine] }), ['store.db', 'lake.duckdb']);
  t.same(readdirSync(target).toSorted(), ['lake.duckdb', 'store.db']);
  t.equal(await waits.promise, 'another backup');
  t.equal(await later, 'bad_usage');
});

t.test('follows a link to the folder, and refuses a mount point before copying anything', async (t) => {
  const folder = t.testdir({ 'lake.duckdb': 'snapshot', disk: { empty: {} }, mounted: {} });
  const path = join(folder, 'store.db');
  const store = await openSqliteStore({ path, maxQueued: 100, clock: systemClock });
  t.teardown(() => store.close());
  const given = { url: `sqlite:${path}`, store, keys: [], base: folder, clock: systemClock };
  const engines = [engineFile(join(folder, 'lake.duckdb'))];
  for (const name of ['empty', 'new']) {
    const link = join(folder, name);
    symlinkSync(join('disk', name), link);
    t.same(await backup({ ...given, engines, folder: link }), ['store.db', 'lake.duckdb'], name);
    t.same(readdirSync(join(folder, 'disk', name)).toSorted(), ['lake.duckdb', 'store.db']);
    t.ok(lstatSync(link).isSymbolicLink(), 'the link stays');
  }
  const mounted = join(folder, 'mounted');
  const { status } = spawnSync('mount', ['-t', 'tmpfs', 'none', mounted]);
  if (status !== 0) return t.comment('Nothing can be mounted here');
  t.teardown(() => spawnSync('umount', [mounted]));
  const untouched = [
    { ...engineFile(join(folder, 'lake.duckdb')), hold: async () => void t.fail('something is copied') },
  ];
  await t.rejects(backup({ ...given, engines: untouched, folder: mounted }), {
    code: 'bad_usage',
    message: /is a mount point.*Name a folder in it/,
  });
  t.notOk(existsSync(`${mounted}.partial`));
});

t.test('leaves nothing of a backup that fails', async (t) => {
  const folder = t.testdir({
    data: { a: { 'lake.duckdb': '1' }, b: { 'lake.duckdb': '2' } },
    other: { 'lake.duckdb': '3' },
  });
  const base = join(folder, 'data');
  const path = join(base, 'store.db');
  const store = await openSqliteStore({ path, maxQueued: 100, clock: systemClock });
  t.teardown(() => store.close());
  const inside = ['a/lake.duckdb', 'b/lake.duckdb'].map((file) => engineFile(join(base, file)));
  const outside = engineFile(join(folder, 'other/lake.duckdb'));
  const target = join(folder, 'copy');
  const given = {
    url: `sqlite:${path}`,
    engines: inside,
    store,
    keys: ['vip'],
    base,
    folder: target,
    clock: systemClock,
  };

  // As when this process sleeps for longer than its leases.
  const overtaken = { ...store, renewLease: async () => false };
  t.equal(await codeOf(backup({ ...given, store: overtaken })), 'fence_lost');
  const full = { ...outside, hold: () => Promise.reject(new Error('no space')) };
  await t.rejects(backup({ ...given, engines: [full] }), /no space/);
  const twice = backup({ ...given, engines: [outside, engineFile(join(folder, 'lake.duckdb'))] });
  t.equal(await codeOf(twice), 'bad_usage', 'two files of one name');
  const noRoom = Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC', syscall: 'copyfile' });
  const short = { ...outside, hold: () => Promise.reject(noRoom) };
  await t.rejects(backup({ ...given, engines: [short] }), { code: 'store_failed', message: /no room/ });
  t.equal(await codeOf(backup({ ...given, url: 'sqlite::memory:', engines: [] })), 'bad_usage', 'nothing to copy');
  t.same(readdirSync(folder).toSorted(), ['data', 'other']);

  t.same(await backup({ ...given, engines: [...inside, outside] }), [
    ...['store.db', 'a/lake.duckdb', 'b/lake.duckdb', 'lake.duckdb'],
  ]);
  t.equal(readFileSync(join(target, 'b/lake.duckdb'), 'utf8'), '2');
});
