import { join } from 'node:path';
import t from 'tap';
import type { Sync } from '../../jobs/index.ts';
import { audience, createRig, NO_GUARD, type Rig, values } from './helpers/rig.ts';

const list = (...users: string[]) => `select unnest([${users.map((user) => `'${user}'`)}]::varchar[]) as user_id`;

t.test('removes a forgotten user from the snapshot, leavers and held plans', async (t) => {
  const rig = await createRig(t);
  const guard = { ...NO_GUARD, maxExits: { count: 0 } };
  rig.config.audiences = [audience('a', list('1', '2', '3'), { guard })];
  await rig.sync.run();
  await rig.deliver();
  rig.config.audiences = [audience('a', list('3'), { guard })];
  const [held] = await rig.sync.run();
  await rig.sync.forget({ users: ['1'], anonymous: [] }, null, async () => false);
  await rig.sync.approve(held?.runs[0]?.id ?? '');
  t.same(values((await rig.deliver()).get('crm'), 'a'), { 2: false });
  t.match(await rig.sync.why('a', '1'), { member: false, since: null });
  t.match(await rig.sync.run(), [{ runs: [{ members: 1, sent: 0 }] }]);
});

t.test('keeps a user forgotten for one source in audiences of another', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', list('1', '2')), audience('b', list('1', '2'))];
  await rig.sync.run();
  const { source } = rig.config.audiences[0] as { source: string };
  await rig.sync.forget({ users: ['1'], anonymous: [] }, ['elsewhere'], async () => false);
  t.match(await rig.sync.why('a', '1'), { member: true });
  await rig.sync.forget({ users: ['1'], anonymous: [] }, [source], async () => false);
  t.match(await rig.sync.why('a', '1'), { member: false, since: null });
});

t.test('counts excluded users neither as members nor as sent', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', list('1', '2', '3'))];
  await rig.store.suppress(['2'], null, true);
  t.match((await rig.sync.plan(['a']))[0]?.sample, [/"userId":"1"/], 'nor named as one');
  const counts = async () => (await rig.sync.run())[0]?.runs[0];
  t.match(await counts(), { members: 2, entered: 2, exited: 0, sent: 2 });
  t.match(await counts(), { members: 2, entered: 0, exited: 0, sent: 0 });
  t.match(await rig.store.runs({ limit: 1 }), [{ members: 2, entered: 0, sent: 0 }]);
  await rig.store.suppress(['2'], null, false);
  t.match(await counts(), { members: 3, entered: 1, sent: 1 });
  await rig.store.suppress(['3'], null, true);
  await rig.sync.forget({ users: ['3'], anonymous: [] }, null, async () => false);
  rig.config.audiences = [audience('a', list('1', '3'))];
  t.match(await counts(), { members: 1, entered: 0, exited: 1, sent: 1 });
  t.match(await rig.sync.resync('a'), { runs: [{ members: 1, entered: 0, sent: 2 }] });
  t.same(values((await rig.deliver()).get('crm'), 'a'), { 1: true, 2: false, 3: true });
});

t.test("doesn't let excluded users hold or pass a run", async (t) => {
  const rig = await createRig(t);
  const guard = { ...NO_GUARD, maxEntries: { count: 1 }, allowEmpty: false };
  rig.config.audiences = [audience('a', list('1', '2', '3', '4', '5'), { guard })];
  await rig.store.suppress(['2', '3'], null, true);
  t.match(await rig.sync.run(), [{ runs: [{ state: 'done', members: 3 }] }]);
  t.match(await rig.sync.plan(['a']), [{ held: null, members: 3, entered: 0, messages: 0, sample: [] }]);
  t.match(await rig.sync.run(), [{ runs: [{ state: 'done', members: 3, entered: 0, sent: 0 }] }]);

  rig.config.audiences = [audience('a', list('1', '2', '3', '6', '7'), { guard })];
  t.match(await rig.sync.plan(['a']), [{ held: /^2 of 3 users would enter/, members: 3, entered: 2, exited: 2 }]);
  const [held] = await rig.sync.run();
  t.match(held?.runs, [{ state: 'held', reason: /^2 of 3 users would enter/, members: 3, entered: 2, exited: 2 }]);
  const run = held?.runs[0]?.id ?? '';
  const named: string[] = [];
  await rig.sync.changes(run, async (rows) => {
    named.push(...rows.map(({ userId }) => userId));
  });
  t.same(named.sort(), ['4', '5', '6', '7'], 'nobody reads their ids there');
  await rig.sync.reject(run);

  rig.config.audiences = [audience('a', list('2', '3'), { guard })];
  t.match(await rig.sync.plan(['a']), [{ held: /^The result is empty; 3 users would leave/ }]);
  t.match(await rig.sync.run(), [{ runs: [{ state: 'held', reason: /empty/, members: 0, exited: 3 }] }]);
});

t.test('counts rows of excluded users as rows of the source', async (t) => {
  const rig = await createRig(t);
  const { expect } = audience('a', '');
  rig.config.audiences = [audience('a', list('1', '2', '3'), { expect: { ...expect, minRows: 3 } })];
  await rig.store.suppress(['2', '3'], null, true);
  t.match(await rig.sync.plan(['a']), [{ held: null, members: 1 }]);
  t.match(await rig.sync.run(), [{ runs: [{ state: 'done', members: 1 }] }]);
});

t.test('leaves excluded users out of an audience that is sent nowhere', async (t) => {
  const rig = await createRig(t);
  rig.config.destinations = [];
  rig.config.audiences = [audience('a', list('1', '2'))];
  await rig.store.suppress(['2'], null, true);
  t.match(await rig.sync.run(), [{ runs: [{ state: 'done', members: 1, entered: 1, sent: 0 }] }]);
  t.match(await rig.sync.why('a', '2'), { member: false, since: null });
});

/** As a deletion request does: the epoch rises first. */
async function takeOut(rig: Rig, sync: Sync, userIds: readonly string[]): Promise<void> {
  const begun = { status: 'RUNNING', createdAt: rig.time(), finishedAt: null, hashes: [], told: null } as const;
  const what = { id: 'r1', type: 'DELETE_ONLY', sources: null, userIds, subjects: userIds.length } as const;
  await rig.store.saveRegulation({ ...what, ...begun, partial: false });
  await sync.forget({ users: userIds, anonymous: [] }, null, async () => false);
  for (let cursor: string | null = null; ; ) {
    const part = await rig.store.erase({ users: userIds, anonymous: [] }, null, cursor);
    cursor = part.cursor;
    if (cursor === null) return;
  }
}

t.test('stops sending a user who is forgotten during a run', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', "select 'u' || lpad(i::varchar, 5, '0') as user_id from range(12000) as t(i)")];
  let forgetting: Promise<void> | null = null;
  const sync = rig.another({
    accept: (...parameters) => {
      // The second batch has been read by now, or is being read; the third has not.
      forgetting ??= takeOut(rig, sync, ['u05001', 'u11000']);
      // Awaited below, once the run is over.
      forgetting.catch(() => {});
      return rig.accept(...parameters);
    },
  });
  t.match(await sync.run(), [{ error: null }]);
  await forgetting;
  const told = values((await rig.deliver()).get('crm'), 'a');
  t.equal(Object.keys(told).length, 11_998);
  t.notOk('u05001' in told || 'u11000' in told);
});

t.test('forgets a user in all other engines, and names one that is gone', async (t) => {
  const rig = await createRig(t);
  const lake = rig.config.engines['lake'];
  if (lake?.type !== 'duckdb') throw new Error('not DuckDB');
  rig.config.engines = { gone: { ...lake, path: join(rig.config.folder, 'gone.duckdb') }, lake };
  rig.config.audiences = [audience('a', list('1', '2'), { engine: 'gone' }), audience('b', list('1', '2'))];
  await rig.sync.run();
  const { gone = lake } = rig.config.engines;
  rig.config.engines = { lake };
  rig.config.audiences = [audience('b', list('1', '2'))];
  await t.rejects(
    rig.sync.forget({ users: ['1'], anonymous: [] }, null, async () => false),
    {
      code: 'engine_unreachable',
      message: /no engine gone/,
    },
  );
  t.match(await rig.sync.why('b', '1'), { member: false, since: null });
  t.match(await rig.sync.why('b', '2'), { member: true });
  rig.config.engines = { gone, lake };
  await rig.sync.forget({ users: ['1'], anonymous: [] }, null, async () => false);
  t.match(await rig.sync.why('a', '1'), { member: false, since: null }, 'once it is back, there too');
});
