import t from 'tap';
import { audience, createRig, destination, trait, values } from './helpers/rig.ts';

const list = (...users: string[]) => `select unnest([${users.map((user) => `'${user}'`)}]::varchar[]) as user_id`;

t.test('sends the whole membership once to a destination connected later, and only to it', async (t) => {
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

t.test('sends a destination that was away only what it missed', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', list('1', '2'))];
  await rig.sync.run();
  await rig.deliver();
  rig.config.destinations = [{ ...destination('crm'), enabled: false }];
  rig.config.audiences = [audience('a', list('2'))];
  await rig.sync.run();
  rig.config.destinations = [destination('crm')];
  await rig.sync.run();
  t.same(values((await rig.deliver()).get('crm'), 'a'), { 1: false });
});

t.test('sends everything to a destination that was away while a key began again as the other kind', async (t) => {
  const rig = await createRig(t);
  rig.config.traits = [trait('score', `select *, 1 as score from (${list('ann', 'bob')}) as users`)];
  await rig.sync.run();
  await rig.deliver();
  rig.config.destinations = [{ ...destination('crm'), enabled: false }, destination('mail')];
  await rig.sync.run();
  await rig.sync.retire('score');
  Object.assign(rig.config, { traits: [], audiences: [audience('score', list('bob', 'cid'))] });
  await rig.sync.run();
  await rig.deliver();
  rig.config.destinations = [destination('crm')];
  await rig.sync.run();
  t.same(values((await rig.deliver()).get('crm'), 'score'), { ann: false, bob: true, cid: true });
});

t.test('sends everybody again on resync, including leavers', async (t) => {
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

t.test('sends false for every member on retire, and restarts with higher sequences', async (t) => {
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

t.test('retires the old key of a renamed audience and fills the new one', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('old', list('1'))];
  await rig.sync.run();
  await rig.deliver();
  rig.config.audiences = [audience('new', list('1'))];
  t.match(await rig.sync.plan(), [{ key: 'new', first: true, renamedFrom: 'old', messages: 1 }]);
  t.match(await rig.sync.run([], { renames: true }), [
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

t.test('skips a paused audience, and later sends what changed', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', list('1'))];
  await rig.sync.run();
  rig.config.audiences = [audience('a', list('2'), { paused: true })];
  t.same(await rig.sync.run(), []);
  rig.config.audiences = [audience('a', list('2'))];
  t.match(await rig.sync.run(), [{ runs: [{ entered: 1, exited: 1 }] }]);
});

t.test('sends a dead change again with the current value, to its destination', async (t) => {
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
  t.match(
    told.get('crm'),
    [{ messageId: /^[^:]+:[\w-]{22}$/ }],
    'who knows the run and the letter does not know the id',
  );
  t.same(told.get('mail'), []);
  t.same(await rig.store.deadLetters({ limit: 10 }), []);
  t.match(await rig.sync.run(), [{ runs: [{ sent: 0 }] }], 'once');
});

t.test("shows the run that set a user's state, and replays the current value", async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', list('1', '2'))];
  await rig.sync.run();
  rig.config.audiences = [audience('a', list('1', '3'))];
  const [second] = await rig.sync.run();
  t.match(await rig.sync.why('a', '3'), { member: true, since: { id: second?.runs[0]?.id }, deadLetters: [] });
  t.match(await rig.sync.why('a', '2'), { member: false, since: { id: second?.runs[0]?.id } });
  t.match(await rig.sync.why('a', 'stranger'), { member: false, since: null });
  const conflicts = ['a|=3', 'a|=2', 'not a change', null];
  const bodies = await rig.sync.currentBodies(
    conflicts.map((conflict) => ({ destination: 'crm', conflict, messageId: 'm1', body: '{}' })),
  );
  t.same(
    bodies.map((body) => (typeof body === 'string' ? JSON.parse(body).traits : body)),
    [{ a: true }, { a: false }, null, null],
  );
});

t.test('sends everything to a destination that dropped out of a failed run and returned', async (t) => {
  const rig = await createRig(t);
  const both = [destination('crm'), destination('mail')];
  rig.config.destinations = both;
  rig.config.audiences = [audience('a', 'select i as user_id from range(1, 12001) as t(i)')];
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

t.test('sends everything to a new destination that got a part of a resync', async (t) => {
  const rig = await createRig(t);
  const members = (from: number) => [audience('a', `select i as user_id from range(${from}, 7001) as t(i)`)];
  rig.config.audiences = members(1);
  await rig.sync.run();
  const both = [destination('crm'), destination('mail')];
  rig.config.destinations = both;
  rig.config.audiences = members(2);
  let batches = 0;
  const failing = rig.another({
    accept: async (...parameters) => {
      batches += 1;
      if (batches === 2) throw new Error('the store is gone');
      return rig.accept(...parameters);
    },
  });
  t.match(await failing.resync('a'), { error: { code: 'engine_failed' } });
  const part = values((await rig.deliver()).get('mail'), 'a');
  t.equal(Object.keys(part).length, 5000);
  rig.config.destinations = both.slice(0, 1);
  await rig.sync.resync('a');
  // Back in are some whose end the destination was sent, out are some whom it was sent as members.
  rig.config.audiences = [audience('a', 'select i as user_id from range(2, 7001, 2) as t(i) union all select 1')];
  await rig.sync.run();
  rig.config.destinations = both;
  await rig.sync.run();
  const state = { ...part, ...values((await rig.deliver()).get('mail'), 'a') };
  const expected = Object.fromEntries(Array.from({ length: 7000 }, (_, i) => [i + 1, i % 2 === 1 || i === 0]));
  t.same(Object.fromEntries(Object.keys(expected).map((id) => [id, state[id] ?? false])), expected);
});

t.test("never lowers the sequence, even after an audience's end or if the clock is set back", async (t) => {
  const rig = await createRig(t);
  const sequences: number[] = [];
  const note = async () => {
    for (const { context } of (await rig.deliver()).get('crm') ?? []) sequences.push(Number(context.personas.sequence));
  };
  for (const time of ['2026-03-01T12:00:00Z', '2026-03-01T07:00:00Z', '2020-01-01T00:00:00Z', '2026-03-01T06:00:00Z']) {
    rig.setTime(time);
    rig.config.audiences = [audience('a', list('1'))];
    await rig.sync.run();
    await note();
    rig.config.audiences = [];
    await rig.sync.retire('a');
    await note();
    const letter = {
      destination: 'crm',
      conflict: 'a|=1',
      messageId: 'm1',
      body: '{"traits":{"a":true},"context":{"personas":{"computation_class":"audience"}}}',
    };
    const [body] = await rig.sync.currentBodies([letter]);
    sequences.push(JSON.parse(String(body)).context.personas.sequence);
  }
  t.equal(sequences.length, 12);
  t.same(
    sequences,
    sequences.toSorted((a, b) => a - b),
  );
  t.equal(new Set(sequences).size, 12, 'and none comes twice');
});

t.test('goes on above all that a run has sent, also of a plan with gaps, while the clock stands', async (t) => {
  const rig = await createRig(t);
  const newest = new Map<string, number>();
  const rising = async (rows: string, name: string) => {
    const sql = `SELECT * FROM (VALUES ${rows}) AS rows (user_id, plan)`;
    rig.config.audiences = [audience('a', sql, { with: { plan: {} } })];
    await rig.sync.run();
    for (const { userId, context } of (await rig.deliver()).get('crm') ?? []) {
      const sequence = Number(context.personas['sequence']);
      t.ok(sequence > (newest.get(userId) ?? 0), `${name}: ${userId}`);
      newest.set(userId, sequence);
    }
  };
  await rising("('1', 'free'), ('2', 'free'), ('3', 'free')", 'all enter');
  await rising("('1', 'pro'), ('2', 'pro')", 'one leaves, behind two who are not sent');
  await rising("('1', 'pro'), ('2', 'pro'), ('3', 'free')", 'and comes back');
});

t.test('goes on above the part of an end that was sent before a person rejected it', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', 'select i as user_id from range(1, 7001) as t(i)')];
  await rig.sync.run();
  let batches = 0;
  const failing = rig.another({
    accept: async (...parameters) => {
      batches += 1;
      if (batches === 2) throw new Error('the store is gone');
      return rig.accept(...parameters);
    },
  });
  t.match(await failing.retire('a'), { error: { code: 'engine_failed' } });
  const sequenceOf1 = async () => {
    const first = (await rig.deliver()).get('crm')?.find(({ userId }) => userId === '1');
    return [first?.traits['a'], Number(first?.context.personas['sequence'])];
  };
  const [ended, last] = await sequenceOf1();
  t.equal(ended, false);
  const [run] = await rig.store.runs({ limit: 1 });
  await rig.sync.reject(run?.id ?? '');
  await rig.sync.run();
  const [present, next] = await sequenceOf1();
  t.equal(present, true);
  t.ok(Number(next) > Number(last));
});
