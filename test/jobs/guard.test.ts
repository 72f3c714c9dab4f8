import fc from 'fast-check';
import t from 'tap';
import { runLine } from '../../src/admin/run-line.ts';
import { parseConfig } from '../../src/config/load.ts';
import { audience, createRig, destination, NO_GUARD, values } from './helpers/rig.ts';

const list = (...users: string[]) => `select unnest([${users.map((user) => `'${user}'`)}]::varchar[]) as user_id`;

t.test('holds a run until a person approves, without piling up ticks', async (t) => {
  const rig = await createRig(t);
  const guard = { ...NO_GUARD, maxExits: { percent: 20 }, allowEmpty: false };
  rig.config.audiences = [audience('a', list('1', '2', '3', '4'), { guard })];
  await rig.sync.run();
  await rig.deliver();
  rig.config.audiences = [audience('a', list('1', '9'), { guard })];
  const phases: string[] = [];
  rig.onProgress = ({ phase }) => phases.push(phase);
  const said: string[] = [];
  const say = (level: string) => (fields: object) => {
    if ('event' in fields && fields.event === 'sync_run') said.push(level);
  };
  const log = { ...rig.log, debug: say('debug'), info: say('info') };
  const sync = rig.another({ log });
  const [held] = await sync.run();
  t.same(phases, ['stage', 'done'], 'a run that waits for a person is not under way');
  t.match(held?.runs, [
    { state: 'held', held: true, exited: 3, entered: 1, sent: 0, reason: /3 of 4.*maxExits \(20%\)/ },
  ]);
  t.type(held?.runs[0] && runLine(held.runs[0]).ms, 'number', 'until it was held');
  t.match(rig.notices.at(-1), { event: 'sync_held', key: 'a' });
  t.same((await rig.deliver()).get('crm'), [], 'nothing is sent');
  const [again] = await sync.run();
  t.equal(again?.runs[0]?.id, held?.runs[0]?.id, 'the next tick finds the same run');
  t.same([held?.isStillHeld, again?.isStillHeld], [false, true]);
  t.match(await rig.another().run(), [{ isStillHeld: true }], 'to a process that starts, too');
  t.same(said, ['info', 'debug'], 'the log has it once');
  t.equal((await rig.store.runs({ key: 'a', limit: 10 })).length, 2);
  t.equal(rig.notices.length, 1, 'people are told once');

  const named = { code: 'unknown_run', message: `There is no run a. The run of a is ${held?.runs[0]?.id}.` };
  await t.rejects(rig.sync.approve('a'), named);
  const approved = await rig.sync.approve(held?.runs[0]?.id ?? '');
  t.match(approved.runs, [{ state: 'done', held: false, sent: 4 }]);
  t.same(values((await rig.deliver()).get('crm'), 'a'), { 2: false, 3: false, 4: false, 9: true });
  await t.rejects(rig.sync.approve('nope'), { code: 'unknown_run' });
  await t.rejects(rig.sync.approve(held?.runs[0]?.id ?? ''), { code: 'unknown_run' }, 'only once');
  t.equal(rig.notices.length, 1, 'a late decision is no failed run');
});

t.test('sends the membership to a destination connected while the run was held', async (t) => {
  const rig = await createRig(t);
  const guard = { ...NO_GUARD, maxExits: { count: 0 } };
  rig.config.audiences = [audience('a', list('1', '2'), { guard })];
  await rig.sync.run();
  await rig.deliver();
  rig.config.audiences = [audience('a', list('2', '3'), { guard })];
  const [held] = await rig.sync.run();
  rig.config.destinations = [destination('crm'), destination('mail')];
  t.match(await rig.sync.approve(held?.runs[0]?.id ?? ''), {
    error: null,
    runs: [{ sent: 2 }, { action: 'backfill', sent: 2 }],
  });
  const told = await rig.deliver();
  t.same(values(told.get('crm'), 'a'), { 1: false, 3: true });
  t.same(values(told.get('mail'), 'a'), { 2: true, 3: true });
});

t.test('discards a rejected run, and computes again in the next sync', async (t) => {
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

t.test("doesn't count the time to a decision as time of the run", async (t) => {
  for (const decide of ['approve', 'reject'] as const) {
    const rig = await createRig(t);
    rig.config.audiences = [audience('a', list('1'), { guard: { ...NO_GUARD, allowEmpty: false } })];
    await rig.sync.run();
    rig.config.audiences = [audience('a', list(), { guard: { ...NO_GUARD, allowEmpty: false } })];
    const [held] = await rig.sync.run();
    rig.setTime('2026-03-01T15:00:00Z');
    const [run] = (await rig.sync[decide](held?.runs[0]?.id ?? '')).runs;
    t.ok(run && (runLine(run).ms ?? Number.POSITIVE_INFINITY) < 60_000, decide);
  }
});

t.test('applies guards from minMembers on, also by count, but never to a first sync', async (t) => {
  const rig = await createRig(t);
  const guard = { maxExits: { count: 1 }, maxEntries: { count: 1 }, maxChanges: null, minMembers: 3, allowEmpty: true };
  const sync = async (...users: string[]) => {
    rig.config.audiences = [audience('a', list(...users), { guard })];
    return (await rig.sync.run())[0]?.runs.at(-1)?.state;
  };
  t.equal(await sync('1', '2'), 'done');
  t.equal(await sync('3', '4', '5'), 'done', 'two members before are fewer than minMembers');
  t.equal(await sync('3', '4', '5', '6', '7'), 'held', 'two entries');
});

t.test('asks before it takes an audience from a destination that has many members', async (t) => {
  const rig = await createRig(t);
  const everybody = 'select unnest(range(1, 101)) as user_id';
  rig.config.audiences = [audience('a', everybody, { guard: NO_GUARD })];
  rig.config.destinations = [destination('crm'), destination('mail')];
  await rig.sync.run();
  await rig.deliver();
  rig.config.destinations = [destination('crm'), { ...destination('mail'), wants: { audiences: ['b'] } }];
  const [report] = await rig.sync.run();
  t.match(report?.runs, [{ action: 'withdraw', state: 'held', reason: /mail no longer takes it: 100 users/ }]);
  t.same((await rig.deliver()).get('mail') ?? [], []);
  await rig.sync.approve(report?.runs[0]?.id ?? '');
  t.equal((await rig.deliver()).get('mail')?.length, 100);
});

t.test('warns of a first sync that finds nobody', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', list(), { guard: NO_GUARD })];
  t.match(await rig.sync.run(), [{ error: null, runs: [{ state: 'done', members: 0 }] }]);
  t.match(rig.notices, [{ event: 'sync_empty', key: 'a', message: /found nobody/ }]);
  await rig.sync.run();
  t.equal(rig.notices.length, 1, 'only the first one');
});

/** Random sequences; GUARD_RUNS makes more. */
const RUNS = Number(process.env['GUARD_RUNS'] ?? 3);
const GUARDS = ['default', 'off', { maxExits: '20%' }, { maxExits: 30 }, { minMembers: 20 }, { maxEntries: '90%' }];

t.test('lets no more than maxExits of the size before a run leave, unless a person approves', async (t) => {
  const step = fc.record({
    from: fc.nat({ max: 150 }),
    size: fc.oneof(fc.nat({ max: 200 }), fc.integer({ min: 90, max: 110 })),
    action: fc.constantFrom('run', 'run', 'run', 'resync', 'approve', 'reject'),
  });
  const asked = fc.record({
    given: fc.constantFrom(...GUARDS),
    steps: fc.array(step, { minLength: 12, maxLength: 12 }),
  });
  const property = fc.asyncProperty(asked, async ({ given, steps }) => {
    const rig = await createRig(t);
    const written = given === 'default' ? {} : { guard: given };
    const file = {
      sources: [{ id: 'personas', writeKey: 'k' }],
      audiences: [{ name: 'a', source: 'personas', sql: 'select 1', ...written }],
    };
    const parsed = parseConfig(JSON.stringify(file), { file: 'test.yaml', folder: '/', env: {} });
    const { guard = NO_GUARD } = parsed.audiences[0] ?? {};
    for (const { from, size, action } of steps) {
      const sql = `select unnest(range(${from + 1}, ${from + size + 1})) as user_id`;
      rig.config.audiences = [audience('a', sql, { guard })];
      const [held] = await rig.store.runs({ key: 'a', states: ['held'], limit: 1 });
      const { runs } =
        held && action === 'approve'
          ? await rig.sync.approve(held.id)
          : held && action === 'reject'
            ? await rig.sync.reject(held.id)
            : action === 'resync'
              ? await rig.sync.resync('a')
              : ((await rig.sync.run())[0] ?? { runs: [] });
      for (const { id, state, exited, entered, members, first } of runs) {
        if (first || state !== 'done' || (id === held?.id && action === 'approve')) continue;
        const before = members + exited - entered;
        const { maxExits, minMembers } = LIMITS[GUARDS.indexOf(given)] as (typeof LIMITS)[number];
        const isOver =
          before >= minMembers && exited > (typeof maxExits === 'number' ? maxExits : before * maxExits.share);
        if (isOver || (before > 0 && members === 0)) throw new Error(`${exited} of ${before} left unasked`);
      }
    }
  });
  await fc.assert(property, { numRuns: RUNS });
});

/** What each of the guards lets through, as the docs say. */
const LIMITS = [
  { maxExits: { share: 0.5 }, minMembers: 100 },
  { maxExits: { share: 1 }, minMembers: 0 },
  { maxExits: { share: 0.2 }, minMembers: 0 },
  { maxExits: 30, minMembers: 0 },
  { maxExits: { share: 0.5 }, minMembers: 20 },
  { maxExits: { share: 1 }, minMembers: 0 },
];
