import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { AttemptRecord } from '../../src/store/port.ts';
import { audience, createRig, destination, NO_GUARD, trait, values } from './helpers/rig.ts';

const list = (...users: string[]) => `select unnest([${users.map((user) => `'${user}'`)}]::varchar[]) as user_id`;

t.test('a guard holds a run, ticks do not pile up behind it, and a person approves', async (t) => {
  const rig = await createRig(t);
  const guard = { ...NO_GUARD, maxExits: { percent: 20 }, allowEmpty: false };
  rig.config.audiences = [audience('a', list('1', '2', '3', '4'), { guard })];
  await rig.sync.run();
  await rig.deliver();
  rig.config.audiences = [audience('a', list('1', '9'), { guard })];
  const [held] = await rig.sync.run();
  t.match(held?.runs, [
    { state: 'held', held: true, exited: 3, entered: 1, sent: 0, reason: /3 of 4.*maxExits \(20%\)/ },
  ]);
  t.match(rig.notices.at(-1), { event: 'held', key: 'a' });
  t.same((await rig.deliver()).get('crm'), [], 'nothing is sent');
  const [again] = await rig.sync.run();
  t.equal(again?.runs[0]?.id, held?.runs[0]?.id, 'the next tick finds the same run');
  t.equal((await rig.store.runs({ key: 'a', limit: 10 })).length, 2);
  t.equal(rig.notices.length, 1, 'people are told once');

  const approved = await rig.sync.approve(held?.runs[0]?.id ?? '');
  t.match(approved.runs, [{ state: 'done', held: false, sent: 4 }]);
  t.same(values((await rig.deliver()).get('crm'), 'a'), { 2: false, 3: false, 4: false, 9: true });
  await t.rejects(rig.sync.approve('nope'), { code: 'unknown_run' });
  t.equal((await rig.sync.approve(held?.runs[0]?.id ?? '')).error?.code, 'unknown_run', 'only once');
});

t.test('a rejected run is gone, and the next sync computes anew', async (t) => {
  const rig = await createRig(t);
  const guard = { ...NO_GUARD, allowEmpty: false };
  rig.config.audiences = [audience('a', list('1', '2'), { guard })];
  await rig.sync.run();
  rig.config.audiences = [audience('a', list(), { guard })];
  const [held] = await rig.sync.run();
  t.match(held?.runs, [{ state: 'held', reason: /empty/ }]);
  t.match((await rig.sync.reject(held?.runs[0]?.id ?? '')).runs, [{ state: 'rejected', sent: 0 }]);
  rig.config.audiences = [audience('a', list('2'), { guard })];
  t.match(await rig.sync.run(), [{ runs: [{ state: 'done', exited: 1, entered: 0 }] }]);
});

t.test('guards count from minMembers on, by count too, and never at the first sync', async (t) => {
  const rig = await createRig(t);
  const guard = { maxExits: { count: 1 }, maxEntries: { count: 1 }, minMembers: 3, allowEmpty: true };
  const sync = async (...users: string[]) => {
    rig.config.audiences = [audience('a', list(...users), { guard })];
    return (await rig.sync.run())[0]?.runs.at(-1)?.state;
  };
  t.equal(await sync('1', '2'), 'done');
  t.equal(await sync('3', '4', '5'), 'done', 'two members before are fewer than minMembers');
  t.equal(await sync('3', '4', '5', '6', '7'), 'held', 'two entries');
});

t.test('a destination connected later gets the whole membership once, and the others nothing extra', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', list('1', '2'))];
  await rig.sync.run();
  await rig.deliver();
  rig.config.destinations = [destination('crm'), destination('mail')];
  rig.config.audiences = [audience('a', list('2', '3'))];
  const [report] = await rig.sync.run();
  t.match(report?.runs, [
    { action: 'sync', sent: 2 },
    { action: 'backfill', sent: 2, destinations: ['mail'] },
  ]);
  const told = await rig.deliver();
  t.same(values(told.get('crm'), 'a'), { 1: false, 3: true });
  t.same(values(told.get('mail'), 'a'), { 2: true, 3: true });
  t.match(await rig.sync.run(), [{ runs: [{ sent: 0 }] }]);
  t.same([...(await rig.deliver()).values()].flat(), []);
});

t.test('a destination that was away learns who left meanwhile', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', list('1', '2'))];
  await rig.sync.run();
  await rig.deliver();
  rig.config.destinations = [{ ...destination('crm'), enabled: false }];
  rig.config.audiences = [audience('a', list('2'))];
  await rig.sync.run();
  rig.config.destinations = [destination('crm')];
  await rig.sync.run();
  t.same(values((await rig.deliver()).get('crm'), 'a'), { 1: false, 2: true });
});

t.test('resync tells everybody again, leavers included', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', list('1', '2', '3'))];
  await rig.sync.run();
  rig.config.audiences = [audience('a', list('1', '2'))];
  await rig.sync.run();
  await rig.deliver();
  rig.config.audiences = [audience('a', list('2', '4'))];
  t.match((await rig.sync.resync('a')).runs, [{ action: 'resync', entered: 1, exited: 1, sent: 4 }]);
  t.same(values((await rig.deliver()).get('crm'), 'a'), { 1: false, 2: true, 3: false, 4: true });
  t.match(await rig.sync.run(), [{ runs: [{ sent: 0 }] }]);
});

t.test('retire tells every member false and forgets; starting over is newer than all before', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', list('1', '2'))];
  rig.config.traits = [trait('n', "select '1' as user_id, 5 as n")];
  await rig.sync.run();
  const before = (await rig.deliver()).get('crm') ?? [];
  rig.config.audiences = [];
  rig.config.traits = [];
  t.same(
    (await rig.sync.orphans()).map(({ key }) => key),
    ['a', 'n'],
    'orphans until retired',
  );
  t.match((await rig.sync.retire('a')).runs, [{ action: 'retire', members: 0, exited: 2, sent: 2 }]);
  await rig.sync.retire('n');
  const told = (await rig.deliver()).get('crm');
  t.same(values(told?.slice(0, 2), 'a'), { 1: false, 2: false });
  t.same(told?.[2]?.traits, { n: null });
  t.same(await rig.sync.orphans(), []);
  rig.setTime('2026-03-01T12:00:01Z');
  rig.config.audiences = [audience('a', list('1'))];
  t.match(await rig.sync.run(), [{ runs: [{ first: true, sent: 1 }] }]);
  const [after] = (await rig.deliver()).get('crm') ?? [];
  t.ok(Number(after?.context.personas['sequence']) > Number(before[1]?.context.personas['sequence']));
});

t.test('a renamed audience retires its old key and fills the new one', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('old', list('1'))];
  await rig.sync.run();
  await rig.deliver();
  rig.config.audiences = [audience('new', list('1'))];
  t.match(await rig.sync.plan(), [{ key: 'new', first: true, renamedFrom: 'old', messages: 1 }]);
  t.match(await rig.sync.run(), [
    {
      runs: [
        { key: 'old', action: 'retire' },
        { key: 'new', first: true },
      ],
    },
  ]);
  t.same(
    (await rig.deliver()).get('crm')?.map(({ traits }) => traits),
    [{ old: false }, { new: true }],
  );
  t.same(await rig.sync.orphans(), []);
});

t.test('a paused audience is left alone, and goes on with what changed meanwhile', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', list('1'))];
  await rig.sync.run();
  rig.config.audiences = [audience('a', list('2'), { paused: true })];
  t.same(await rig.sync.run(), []);
  rig.config.audiences = [audience('a', list('2'))];
  t.match(await rig.sync.run(), [{ runs: [{ entered: 1, exited: 1 }] }]);
});

t.test('a change that died is offered again with the value of now, where it died', async (t) => {
  const rig = await createRig(t);
  rig.config.destinations = [destination('crm'), destination('mail')];
  rig.config.audiences = [audience('a', list('1', '2'))];
  await rig.sync.run();
  await rig.deliver((claim) =>
    claim.destination === 'crm' && claim.userId === '1'
      ? { kind: 'dead', reason: 'refused', status: 400, firstAt: null }
      : { kind: 'delivered' },
  );
  rig.setTime('2026-03-01T12:15:00Z');
  const [report] = await rig.sync.run();
  t.match(report?.runs, [{ entered: 0, exited: 0, sent: 1 }]);
  const told = await rig.deliver();
  t.same(values(told.get('crm'), 'a'), { 1: true });
  t.same(told.get('mail'), []);
  t.same(await rig.store.deadLetters({ limit: 10 }), []);
  t.match(await rig.sync.run(), [{ runs: [{ sent: 0 }] }], 'once');
});

t.test('a snapshot that is gone fails the sync until a resync', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', list('1'))];
  await rig.sync.run();
  await rig.deliver();
  rmSync(join(rig.config.folder, 'audiences.duckdb'));
  const [report] = await rig.sync.run();
  t.equal(report?.error?.code, 'snapshot_lost');
  t.match(report?.error?.message, /rollcall resync a/);
  t.same((await rig.deliver()).get('crm'), []);
  t.match((await rig.sync.resync('a')).runs, [{ state: 'done', sent: 1 }]);
  t.match(await rig.sync.run(), [{ runs: [{ state: 'done', sent: 0 }] }]);
});

t.test('a store that knows less than the engine fails the sync until a resync', async (t) => {
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

t.test('a plan says what would be sent and leaves no trace', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', list('1', '1', '2', ''))];
  t.match(await rig.sync.plan(), [
    { key: 'a', first: true, members: 2, entered: 2, exited: 0, invalid: 1, duplicates: 1, messages: 2, calls: 2 },
  ]);
  t.notOk(existsSync(join(rig.config.folder, 'audiences.duckdb')), 'not even the file');
  await rig.sync.run();
  rig.config.audiences = [audience('a', list('2', '3'))];
  rig.config.destinations = [destination('crm'), destination('mail')];
  const [plan] = await rig.sync.plan();
  t.match(plan, { entered: 1, exited: 1, before: 2, newcomers: ['mail'], calls: 4, held: null });
  t.same(
    plan?.sample.map((body) => JSON.parse(body).traits),
    [{ a: false }, { a: true }],
  );
  t.equal((await rig.store.runs({ limit: 10 })).length, 1);
  t.match(await rig.sync.run(), [{ runs: [{ entered: 1, exited: 1 }, { action: 'backfill' }] }]);
});

t.test('why tells since which run a user is in, and replays get the value of now', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', list('1', '2'))];
  await rig.sync.run();
  rig.config.audiences = [audience('a', list('1', '3'))];
  const [second] = await rig.sync.run();
  t.match(await rig.sync.why('a', '3'), { member: true, since: { id: second?.runs[0]?.id }, deadLetters: [] });
  t.match(await rig.sync.why('a', '2'), { member: false, since: { id: second?.runs[0]?.id } });
  t.match(await rig.sync.why('a', 'stranger'), { member: false, since: null });
  const conflicts = ['a\u00003', 'a\u00002', 'not a change', null];
  const bodies = await rig.sync.currentBodies(conflicts.map((conflict) => ({ conflict, body: '{}' })));
  t.same(
    bodies.map((body) => (typeof body === 'string' ? JSON.parse(body).traits : body)),
    [{ a: true }, { a: false }, null, null],
  );
});

t.test('a forgotten user is out of the snapshot, leavers and held plans', async (t) => {
  const rig = await createRig(t);
  const guard = { ...NO_GUARD, maxExits: { count: 0 } };
  rig.config.audiences = [audience('a', list('1', '2', '3'), { guard })];
  await rig.sync.run();
  await rig.deliver();
  rig.config.audiences = [audience('a', list('3'), { guard })];
  const [held] = await rig.sync.run();
  await rig.sync.forget(['1'], null);
  await rig.sync.approve(held?.runs[0]?.id ?? '');
  t.same(values((await rig.deliver()).get('crm'), 'a'), { 2: false });
  t.match(await rig.sync.why('a', '1'), { member: false, since: null });
  t.match(await rig.sync.run(), [{ runs: [{ members: 1, sent: 0 }] }]);
});

t.test('a user forgotten for one source stays in the audiences that speak as another', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', list('1', '2')), audience('b', list('1', '2'))];
  await rig.sync.run();
  const { source } = rig.config.audiences[0] as { source: string };
  await rig.sync.forget(['1'], ['elsewhere']);
  t.match(await rig.sync.why('a', '1'), { member: true });
  await rig.sync.forget(['1'], [source]);
  t.match(await rig.sync.why('a', '1'), { member: false, since: null });
});

t.test('a user forgotten while a run is sending is not sent any more', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', "select 'u' || lpad(i::varchar, 5, '0') as user_id from range(12000) as t(i)")];
  let forgetting: Promise<void> | null = null;
  const sync = rig.another({
    accept: (...parameters) => {
      // The second batch has been read by now, or is being read; the third has not.
      forgetting ??= sync.forget(['u05001', 'u11000'], null);
      return rig.accept(...parameters);
    },
  });
  t.match(await sync.run(), [{ error: null }]);
  await forgetting;
  const told = values((await rig.deliver()).get('crm'), 'a');
  t.equal(Object.keys(told).length, 11_998);
  t.notOk('u05001' in told || 'u11000' in told);
});

t.test('an orphan whose plan is lost can still be retired', async (t) => {
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

t.test('a destination that drops out of a run that then fails is told everything on its return', async (t) => {
  const rig = await createRig(t);
  const both = [destination('crm'), destination('mail')];
  rig.config.destinations = both;
  rig.config.audiences = [audience('a', 'select i as user_id from range(12000) as t(i)')];
  let batches = 0;
  const failing = rig.another({
    accept: async (...parameters) => {
      batches += 1;
      if (batches === 3) throw new Error('the store is gone');
      const result = await rig.accept(...parameters);
      rig.config.destinations = both.slice(0, 1);
      return result;
    },
  });
  t.match(await failing.run(), [{ error: { code: 'engine_failed' } }]);
  rig.config.destinations = both;
  await rig.sync.run();
  const told = await rig.deliver();
  t.equal(Object.keys(values(told.get('crm'), 'a')).length, 12_000);
  t.equal(Object.keys(values(told.get('mail'), 'a')).length, 12_000);
});

t.test('an audience that moved to another engine is refused until it is retired where it lies', async (t) => {
  const rig = await createRig(t);
  const other = {
    type: 'duckdb',
    path: join(rig.config.folder, 'other.duckdb'),
    memoryLimit: null,
    threads: 1,
  } as const;
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

t.test('an engine may get another name, and one that is gone leaves only resync', async (t) => {
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

t.test('a plan tells how long its calls take by those of an earlier run, or that it does not know', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', 'select unnest(range(200))::varchar as user_id')];
  await rig.sync.run();
  t.match(await rig.sync.plan(), [{ calls: 0, estimatedMs: null }]);
  rig.config.audiences = [audience('a', 'select unnest(range(600))::varchar as user_id')];
  t.match(await rig.sync.plan(), [{ calls: 400, estimatedMs: null }], 'accepted is not yet called');
  const [run] = await rig.store.runs({ limit: 1 });
  const calls = Array.from({ length: 200 }, (_, index) => attempt(`${run?.id}:*:${index}`, index * 10));
  const store = { ...rig.store, attempts: async () => [...calls, attempt('another message', 1_000_000)] };
  t.match(await rig.another({ store }).plan(), [{ calls: 400, estimatedMs: 4000 }], '200 calls took 2 s');
  const few = { ...rig.store, attempts: async () => calls.slice(0, 50) };
  t.match(await rig.another({ store: few }).plan(), [{ estimatedMs: null }], 'a few say nothing');
});

function attempt(messageId: string, time: number): AttemptRecord {
  return {
    delivery: messageId,
    destination: 'crm',
    endpoint: 'crm',
    source: 'personas',
    type: 'identify',
    userId: 'u',
    messageId,
    at: time,
    ms: 10,
    outcome: 'success',
    status: 200,
    error: null,
    response: null,
  };
}
