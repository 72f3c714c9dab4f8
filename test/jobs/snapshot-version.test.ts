import { rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { audience, createRig, duckdbAt, NO_GUARD, values } from './helpers/rig.ts';

const list = (...users: string[]) => `select unnest([${users.map((user) => `'${user}'`)}]::varchar[]) as user_id`;

t.test('fails syncs after a lost snapshot until a resync', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', list('1'))];
  await rig.sync.run();
  await rig.deliver();
  rmSync(join(rig.config.folder, 'audiences.duckdb'));
  const [report] = await rig.sync.run();
  t.equal(report?.error?.code, 'snapshot_lost');
  t.match(report?.error?.message, /rollcall resync a/);
  t.same((await rig.deliver()).get('crm'), []);
  await t.rejects(rig.sync.why('a', '1'), { code: 'snapshot_lost' }, 'nobody is said to be out');
  t.match((await rig.sync.resync('a')).runs, [{ state: 'done', sent: 1 }]);
  t.match(await rig.sync.run(), [{ runs: [{ state: 'done', sent: 0 }] }]);
});

t.test('fails syncs of a store that is behind the engine until a resync', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', list('1'))];
  await rig.sync.run();
  const fence = await rig.store.takeLease('sync:a', 1000);
  t.ok(fence);
  if (fence) await rig.store.forgetAudience('a', fence);
  if (fence) await rig.store.releaseLease(fence);
  t.match(await rig.sync.run(), [{ error: { code: 'snapshot_moved' } }]);
  t.match((await rig.sync.resync('a')).runs, [{ state: 'done' }]);
  t.match(await rig.sync.run(), [{ error: null }]);
});

t.test('retires an orphan whose plan is lost', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', list('1'))];
  const broken = rig.another({ accept: async () => Promise.reject(new Error('the store is gone')) });
  t.match(await broken.run(), [{ error: { code: 'engine_failed' } }]);
  rmSync(join(rig.config.folder, 'audiences.duckdb'));
  t.match(
    await rig.sync.run(),
    [{ error: { code: 'snapshot_lost' } }],
    'some may have been told of a plan that is gone',
  );
  t.match((await rig.sync.retire('a')).runs, [{ state: 'rejected' }, { action: 'retire', state: 'done' }]);
  t.match(await rig.sync.run(), [{ runs: [{ first: true, sent: 1 }] }]);
});

t.test('refuses an audience that moved to another engine until it is retired in the old one', async (t) => {
  const rig = await createRig(t);
  const other = duckdbAt(join(rig.config.folder, 'other.duckdb'));
  rig.config.engines['other'] = other;
  rig.config.audiences = [audience('a', list('1', '2'))];
  await rig.sync.run();
  await rig.deliver();
  rig.config.audiences = [audience('a', list('2', '3'), { engine: 'other' })];
  for (let time = 0; time < 2; time += 1) {
    t.match(await rig.sync.run(), [{ error: { code: 'engine_changed', message: /engine lake.*rollcall retire a/ } }]);
  }
  t.equal((await rig.sync.resync('a')).error?.code, 'engine_changed', 'leavers could not be told');
  await t.rejects(rig.sync.plan(['a']), { code: 'engine_changed' });
  t.same((await rig.deliver()).get('crm'), [], 'nothing is sent');
  t.match(await rig.sync.retire('a'), { runs: [{ action: 'retire', exited: 2 }] });
  t.same(values((await rig.deliver()).get('crm'), 'a'), { 1: false, 2: false });
  t.match(await rig.sync.run(), [{ runs: [{ first: true, entered: 2 }] }]);
  t.same(values((await rig.deliver()).get('crm'), 'a'), { 2: true, 3: true });
});

t.test('decides a run held before an engine change in the old engine', async (t) => {
  const rig = await createRig(t);
  const lake = rig.config.engines['lake'];
  if (lake?.type !== 'duckdb') throw new Error('not DuckDB');
  const guard = { ...NO_GUARD, maxExits: { count: 0 } };
  rig.config.audiences = [audience('a', list('1', '2'), { guard })];
  await rig.sync.run();
  await rig.deliver();
  rig.config.audiences = [audience('a', list('2'), { guard })];
  const [held] = await rig.sync.run();
  rig.config.engines['other'] = { ...lake, path: join(rig.config.folder, 'other.duckdb') };
  rig.config.audiences = [audience('a', list('2'), { guard, engine: 'other' })];
  t.match(await rig.sync.why('a', '1'), { member: true, unfinished: [{ state: 'held' }] });
  t.match(await rig.sync.approve(held?.runs[0]?.id ?? ''), { error: null, runs: [{ state: 'done', exited: 1 }] });
  t.same(values((await rig.deliver()).get('crm'), 'a'), { 1: false });
});

t.test('accepts a renamed engine, and allows only resync if the old one is gone', async (t) => {
  const rig = await createRig(t);
  const lake = rig.config.engines['lake'];
  if (lake?.type !== 'duckdb') throw new Error('not DuckDB');
  rig.config.audiences = [audience('a', list('1', '2'))];
  await rig.sync.run();
  rig.config.engines = { renamed: lake };
  rig.config.audiences = [audience('a', list('2'), { engine: 'renamed' })];
  t.match(await rig.sync.run(), [{ runs: [{ first: false, exited: 1 }] }]);
  rig.config.engines = { new: { ...lake, path: join(rig.config.folder, 'new.duckdb') } };
  rig.config.audiences = [audience('a', list('2', '3'), { engine: 'new' })];
  t.match(await rig.sync.run(), [{ error: { code: 'engine_changed', message: /rollcall resync a/ } }]);
  t.match(await rig.sync.resync('a'), { runs: [{ state: 'done', entered: 2 }] });
  t.match(await rig.sync.run(), [{ runs: [{ state: 'done', sent: 0 }] }]);
});
