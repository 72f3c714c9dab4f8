import t from 'tap';
import { runLine } from '../../src/admin/run-line.ts';
import { RollcallError } from '../../src/kernel/errors.ts';
import type { Run } from '../../src/store/port.ts';
import { until } from '../helpers/until.ts';
import { audience, createRig, destination, trait, values } from './helpers/rig.ts';

const MEMBERS = "select user_id from read_csv('members.csv', header = true, all_varchar = true)";

t.test('sends true for every member first, then only changes', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('big_spenders', MEMBERS)];
  rig.write('members', ['user_id', 'a', 'b', 'c']);

  const [first] = await rig.sync.run();
  t.match(first?.runs, [{ state: 'done', first: true, members: 3, entered: 3, exited: 0, sent: 3 }]);
  const told = (await rig.deliver()).get('crm') ?? [];
  t.same(values(told, 'big_spenders'), { a: true, b: true, c: true });

  const [again] = await rig.sync.run();
  t.match(again?.runs, [{ state: 'done', first: false, members: 3, entered: 0, exited: 0, sent: 0 }]);
  t.same((await rig.deliver()).get('crm'), [], 'an unchanged sync sends nothing');

  rig.write('members', ['user_id', 'c', 'd']);
  const [changed] = await rig.sync.run();
  t.match(changed?.runs, [{ members: 2, entered: 1, exited: 2, sent: 3 }]);
  t.same(values((await rig.deliver()).get('crm'), 'big_spenders'), { a: false, b: false, d: true });

  rig.write('members', ['user_id', 'c', 'd', 'a']);
  await rig.sync.run();
  t.same(values((await rig.deliver()).get('crm'), 'big_spenders'), { a: true }, 'who comes back is told again');
});

t.test('asks the store as often for fifty destinations as for one', async (t) => {
  const callsOf = async (destinations: number) => {
    const rig = await createRig(t);
    rig.config.destinations = Array.from({ length: destinations }, (_, n) => destination(`app-${n}`));
    rig.config.audiences = [audience('big_spenders', MEMBERS)];
    const calls: string[] = [];
    const store = new Proxy(rig.store, {
      get(target, name) {
        const value = Reflect.get(target, name);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]) => {
          calls.push(String(name));
          return value.apply(target, args);
        };
      },
    });
    const sync = rig.another({ store });
    rig.write('members', ['user_id', 'a', 'b']);
    await sync.run();
    calls.length = 0;
    rig.write('members', ['user_id', 'b', 'c']);
    const [report] = await sync.run();
    t.match(report?.runs, [{ state: 'done', entered: 1, exited: 1, sent: 2 }]);
    return calls;
  };
  const one = await callsOf(1);
  t.same(await callsOf(50), one);
  t.ok(one.length <= 45, `${one.length} calls`);
});

t.test('reads, sends and resends long values in portions that fit into memory', async (t) => {
  const rig = await createRig(t);
  const portions: number[] = [];
  const accept: typeof rig.accept = (source, messages, options) => {
    portions.push(messages.reduce((sum, { body }) => sum + body.length, 0));
    return rig.accept(source, messages, options);
  };
  const sync = rig.another({ accept });
  const users = 'range(1, 91) as list(n)';
  rig.config.traits = [trait('text', `select n as user_id, repeat('x', 200000) as value from ${users}`)];
  const [first] = await sync.run();
  t.match(first?.runs, [{ state: 'done', entered: 90, sent: 90 }]);
  t.equal(portions.length, 2);
  const refused = { kind: 'dead', reason: 'refused', status: 400, firstAt: rig.time() } as const;
  await rig.deliver(() => refused);

  rig.setTime('2026-03-01T13:00:00Z');
  await sync.run();
  t.equal(new Set((await rig.deliver()).get('crm')?.map(({ userId }) => userId)).size, 90);
  t.ok(Math.max(...portions) < 21_000_000, `${portions}`);
});

t.test('never sends a key named __proto__', async (t) => {
  const rig = await createRig(t);
  const traps = `{'__proto__': {'admin': true}, 'kept': [{'__proto__': 1, 'b': 2}]} as struct`;
  const json = `'{"\\u005f_proto__": {"admin": true}, "kept": "__proto__"}'::json as json, 1 as "__proto__"`;
  const sql = (users: string) => `select user_id, ${traps}, ${json} from (values ${users}) as users(user_id)`;
  rig.config.traits = [trait('odd', sql("('a'), ('b')"))];
  await rig.sync.run();
  rig.config.traits = [trait('odd', sql("('a')"))];
  await rig.sync.run();
  const told = (await rig.deliver()).get('crm') ?? [];
  t.strictSame(
    told.map(({ traits }) => JSON.stringify(traits)),
    ['{"struct":null,"json":null}', '{"struct":{"kept":[{"b":2}]},"json":{"kept":"__proto__"}}'],
  );
});

t.test('serves waiting orders in order of arrival, each as of its start', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', 'select 1 as user_id')];
  const sleepers: (() => void)[] = [];
  const sleep = () => new Promise<void>((wake) => void sleepers.push(wake));
  const sync = rig.another({ clock: { ...rig.clock, sleep } });
  const fence = await rig.store.takeLease('sync:a', 60_000);
  if (!fence) throw new Error('the lease is taken');
  const runs: Run[] = [];
  const orders: Promise<number>[] = [];
  for (const order of [sync.resync, sync.retire]) {
    orders.push(order('a').then((report) => runs.push(...report.runs)));
    await until(() => sleepers.length === orders.length);
  }
  rig.setTime('2026-03-01T12:00:01Z');
  await rig.store.releaseLease(fence);
  let over = false;
  void Promise.allSettled(orders).then(() => {
    over = true;
  });
  // The last to arrive wakes first.
  await until(() => {
    for (const wake of sleepers.splice(0).toReversed()) wake();
    return over;
  });
  const asOf = rig.time();
  t.match(runs, [
    { action: 'sync', state: 'done', first: true, entered: 1, asOf },
    { action: 'retire', state: 'done', exited: 1, asOf },
  ]);
});

t.test('sends bodies as designed, with a rising sequence', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('big_spenders', MEMBERS)];
  rig.write('members', ['user_id', 'ü"1', 'u2']);
  await rig.sync.run(undefined, { now: Date.parse('1997-06-01T00:00:00Z') });
  const owner = await rig.store.join(1000);
  const claims = (await rig.store.claim(owner, [{ destination: 'crm', limit: 10, order: 'usual' }])).claims.flat();
  const bodies = claims.map(({ body }) => JSON.parse(body));
  t.match(bodies[0], {
    version: 1,
    type: 'identify',
    userId: 'u2',
    traits: { big_spenders: true },
    timestamp: '1997-06-01T00:00:00.000Z',
    context: {
      personas: {
        computation_class: 'audience',
        computation_id: /^aud_[0-9a-f]{24}$/,
        computation_key: 'big_spenders',
      },
    },
  });
  const names = ['version', 'type', 'messageId', 'userId', 'traits', 'timestamp', 'receivedAt', 'context'];
  t.same(Object.keys(bodies[0]), names);
  for (const { body, messageId } of claims) {
    t.equal(JSON.stringify(JSON.parse(body)), body);
    t.match(JSON.parse(body), { messageId, receivedAt: /^2026-03-01T/ }, 'taken now, whatever day the run is for');
  }
  t.ok(bodies[1].context.personas.sequence > bodies[0].context.personas.sequence);
  t.ok(Number.isSafeInteger(bodies[1].context.personas.sequence));
});

t.test('counts unusable ids and duplicates', async (t) => {
  const rig = await createRig(t);
  const sql = `select unnest(['a', 'a', 'A', '1', '1', null, '', '  ', E'\\t']) as user_id`;
  rig.config.audiences = [audience('odd', sql)];
  const [report] = await rig.sync.run();
  t.match(report?.runs, [{ members: 3, invalid: 4, duplicates: 2, sent: 3 }]);
  t.same(Object.keys(values((await rig.deliver()).get('crm'), 'odd')).sort(), ['1', 'A', 'a']);
});

t.test('treats a number and its text as one user in all syncs', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('n', 'select 1 as user_id')];
  await rig.sync.run();
  rig.config.audiences = [audience('n', "select '1' as user_id")];
  const [report] = await rig.sync.run();
  t.match(report?.runs, [{ entered: 0, exited: 0, sent: 0 }]);
});

t.test('removes users as time passes', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [
    audience('recent', "select 'u' as user_id where $now < timestamp '1997-02-01' -- not '$now';\n;"),
  ];
  const [before] = await rig.sync.run(undefined, { now: Date.parse('1997-01-31T23:59:59.999Z') });
  const [after] = await rig.sync.run(undefined, { now: Date.parse('1997-02-01T00:00:00Z') });
  t.match(before?.runs, [{ entered: 1 }]);
  t.match(after?.runs, [{ entered: 0, exited: 1 }]);
});

t.test('logs a run with the fields that scripts read', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', "select 'u' as user_id")];
  const [report] = await rig.sync.run();
  const line = runLine(report?.runs[0] as never);
  t.same(Object.keys(line), [
    'run',
    'key',
    'kind',
    'first',
    'members',
    'entered',
    'exited',
    'invalid',
    'duplicates',
    'held',
    'sent',
    'startedAt',
    'ms',
    'action',
    'state',
    'phase',
    'code',
    'reason',
    'changed',
    'reasons',
    'skipped',
    'before',
    'definitionHash',
    'asOf',
  ]);
  t.equal(line.startedAt, '2026-03-01T12:00:00.000Z');
});

t.test('sends a computed trait when it changes, and null once it is gone', async (t) => {
  const rig = await createRig(t);
  const rows = (list: string) => `select * from (values ${list}) as rows(user_id, value)`;
  rig.config.traits = [trait('ltv', rows("('a', 1.5), ('b', 2), ('c', null)"))];
  t.match(await rig.sync.run(), [{ runs: [{ kind: 'trait', members: 2, entered: 2, sent: 2 }] }]);
  t.same(values((await rig.deliver()).get('crm'), 'ltv'), { a: 1.5, b: 2 });
  rig.config.traits = [trait('ltv', rows("('a', 1.5), ('c', 3)"))];
  t.match(await rig.sync.run(), [{ runs: [{ members: 2, entered: 1, exited: 1, changed: 0 }] }]);
  t.same(values((await rig.deliver()).get('crm'), 'ltv'), { b: null, c: 3 });
  rig.config.traits = [trait('ltv', rows("('a', 2.5), ('c', 3)"))];
  t.match(await rig.sync.run(), [{ runs: [{ entered: 0, exited: 0, changed: 1 }] }]);
  t.same(values((await rig.deliver()).get('crm'), 'ltv'), { a: 2.5 });
});

t.test('sends several columns in one identify, all of them whenever one changed', async (t) => {
  const rig = await createRig(t);
  rig.config.traits = [
    trait('profile', "select 'u' as user_id, 3 as orders, true as vip, date '1997-01-01' as since, ['x'] as tags"),
  ];
  await rig.sync.run();
  const [told] = (await rig.deliver()).get('crm') ?? [];
  t.same(told?.traits, { orders: 3, vip: true, since: '1997-01-01', tags: ['x'] });
  t.match(told?.context.personas, { computation_class: 'trait', computation_key: 'profile' });

  rig.config.traits = [trait('profile', "select 'u' as user_id, 3 as orders, false as vip")];
  await rig.sync.run();
  const [changed] = (await rig.deliver()).get('crm') ?? [];
  t.same(changed?.traits, { orders: 3, vip: false, since: null, tags: null }, 'columns that are gone are null');

  rig.config.traits = [trait('profile', "select 'u' as user_id, 1 as orders, false as vip where false")];
  await rig.sync.run();
  const [gone] = (await rig.deliver()).get('crm') ?? [];
  t.same(gone?.traits, { orders: null, vip: null });
});

t.test('keeps the snapshot and other audiences when a query fails', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('broken', "select 'a' as user_id"), audience('fine', "select 'f' as user_id")];
  await rig.sync.run();
  for (const [sql, code, says] of [
    ['select nonsense from nowhere', 'sql_failed', /nowhere/],
    ["select 'x' as customer", 'column_missing', /user_id.*customer/],
    ['select [1] as user_id', 'column_type', /INTEGER\[\]/],
    ["select user_id from read_csv('absent.csv')", 'sql_failed', /absent\.csv/],
    ["select 'a' as user_id; drop table x", 'sql_failed', /single statement/],
    ['-- nothing', 'sql_failed', /empty/],
  ] as const) {
    rig.config.audiences = [audience('broken', sql), audience('fine', "select 'f' as user_id")];
    const [broken, fine] = await rig.sync.run();
    t.equal(broken?.error?.code, code, sql);
    t.match(broken?.error?.message, says);
    t.match(broken?.error?.message, /^broken: /);
    t.match(fine?.runs, [{ state: 'done', sent: 0 }]);
    t.match(await rig.store.runs({ key: 'broken', limit: 1 }), [{ state: 'failed', code }]);
    t.match(rig.notices.at(-1), { event: 'sync_failed', key: 'broken', code });
  }
  rig.config.audiences = [audience('broken', "select 'a' as user_id")];
  t.match(await rig.sync.run(), [{ runs: [{ members: 1, entered: 0, exited: 0 }] }]);
});

t.test('reports runs finished before a failure, and names the audience once', async (t) => {
  const rig = await createRig(t);
  rig.config.audiences = [audience('a', "select 'u' as user_id")];
  const stopped = rig.another({
    accept: async () => {
      throw new RollcallError('store_failed', 'The store failed.');
    },
  });
  t.match(await stopped.run(), [{ runs: [], error: { code: 'store_failed', message: 'a: The store failed.' } }]);
  rig.config.audiences = [audience('a', 'select nonsense')];
  const [report] = await rig.sync.run();
  t.match(report?.runs, [{ state: 'done', first: true, sent: 1 }]);
  t.match(report?.error, { code: 'sql_failed', message: /^a: (?!a: ).*nonsense/s });
});

t.test('refuses an unknown audience', async (t) => {
  const rig = await createRig(t);
  await t.rejects(rig.sync.run(['nope']), { code: 'unknown_audience' });
  await t.rejects(rig.sync.resync('nope'), { code: 'unknown_audience' });
});
