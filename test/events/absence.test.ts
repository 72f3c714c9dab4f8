import t from 'tap';
import { caughtUp } from '../live/helpers/service.ts';
import { loggingService, send } from './helpers/logging-app.ts';

t.test('says which part of a condition fails for somebody, or that an id is unknown or a former one', async (t) => {
  const service = loggingService(t);
  const when = {
    all: [
      { performed: 'Order' },
      { all: [{ trait: 'plan', is: 'pro' }, { not: { performed: 'Refund' } }] },
      { any: [{ inAudience: 'listed' }, { trait: 'vip', is: true }] },
    ],
  };
  const common = { source: 'personas', when };
  const app = await service.open([], {
    audiences: [
      { name: 'listed', source: 'personas', sql: "select 'ann' as user_id" },
      { name: 'timed', ...common },
      { name: 'live', live: true, ...common },
    ],
  });
  await app.start({ collect: true, schedules: true });
  await send(app, [
    { type: 'track', event: 'Order', userId: 'ann' },
    { type: 'identify', userId: 'ann', traits: { plan: 'pro' } },
    { type: 'track', event: 'Order', userId: "bob's" },
    { type: 'track', event: 'Refund', userId: "bob's" },
    { type: 'alias', previousId: 'annie', userId: 'ann' },
  ]);
  await app.sync.run(['listed', 'timed']);
  await caughtUp(app);
  for (const key of ['timed', 'live']) {
    const absent = async (user: string) => (await app.sync.why(key, user)).absence ?? null;
    t.equal(await absent('ann'), null, 'a member');
    t.same(await absent("bob's"), {
      ...{ reason: 'condition', user: null },
      failing: ['when.all[1].all[0] (trait)', 'when.all[1].all[1] (not)', 'when.all[2] (any)'],
    });
    t.same(await absent('annie'), { reason: 'former', user: 'ann', failing: [] }, key);
    t.same(await absent('nobody'), { reason: 'unknown', user: null, failing: [] }, key);
    const answers = async (user: string) =>
      (await app.sync.why(key, user)).conditions?.map(({ path, says, passes, times, value }) => [
        ...[path, says, passes],
        value ?? times,
      ]);
    t.same(await answers('ann'), [
      ['when.all[0]', 'did Order', true, 1],
      ['when.all[1].all[0]', 'trait plan is "pro"', true, '"pro"'],
      ['when.all[1].all[1]', 'not: did Refund', true, null],
      ['when.all[1].all[1].not', 'did Refund', false, 0],
      ['when.all[2]', 'is in listed, or trait vip is true', true, null],
      ['when.all[2].any[0]', 'is in listed', true, null],
      ['when.all[2].any[1]', 'trait vip is true', false, null],
    ]);
    t.match(await answers("bob's"), [
      { 2: true, 3: 1 },
      { 2: false, 3: null },
      { 2: false },
      { 2: true, 3: 1 },
      { 2: false },
    ]);
  }
  t.equal((await app.sync.why('listed', 'nobody')).absence, null, 'SQL does not say');
});

t.test('names the events of each step of a sequence, and counts how many people pass each condition', async (t) => {
  const service = loggingService(t);
  const when = {
    all: [
      {
        sequence: [
          { performed: 'Cart', where: { 'properties.total': { gt: 5 } } },
          { performed: ['Paid', 'Cart'], after: { atMost: '1 hour' } },
          { not: { performed: 'Order' }, after: { atMost: '2 hours' } },
        ],
      },
      { not: { any: [{ performed: 'Refund' }, { trait: 'plan', is: 'free' }] } },
    ],
  };
  const app = await service.open([], {
    audiences: [
      { name: 'carts', source: 'personas', when },
      { name: 'live carts', key: 'live_carts', source: 'personas', live: true, when },
      { name: 'others', source: 'personas', when: { not: { performed: 'Cart' } } },
    ],
  });
  await app.start({ collect: true, schedules: true });
  const ago = (hours: number) => new Date(service.clock.now() - hours * 3_600_000).toISOString();
  const did = (userId: string, event: string, hours: number, total = 10) => {
    const messageId = `${userId}|${event}|${hours}`;
    return { type: 'track', event, userId, messageId, timestamp: ago(hours), properties: { total } };
  };
  await send(app, [
    ...[did("ann's", 'Cart', 9), did("ann's", 'Cart', 8.5), did("ann's", 'Order', 3)],
    ...[did('bob', 'Cart', 9), did('bob', 'Paid', 8.5), did('bob', 'Order', 7)],
    ...[did('cleo', 'Cart', 1), did('cleo', 'Paid', 0.5)],
    ...[did('dan', 'Cart', 9), did('dan', 'Paid', 4)],
    ...[did('eve', 'Cart', 9), did('eve', 'Paid', 8.5), did('eve', 'Refund', 1)],
    ...[did('fay', 'Cart', 9, 1), did('gus', 'Order', 1)],
  ]);
  await app.sync.run(['carts']);
  await caughtUp(app);
  const funnel = [
    { path: 'when.all[0].sequence[0]', condition: 'performed', people: 5, left: 5 },
    { path: 'when.all[0].sequence[1]', condition: 'performed', people: 4, left: 4 },
    { path: 'when.all[0].sequence[2]', condition: 'not', people: 2, left: 2 },
    { path: 'when.all[1]', condition: 'not', people: null, left: 1 },
    { path: 'when.all[1].not.any[0]', condition: 'performed', people: 1, left: null },
    { path: 'when.all[1].not.any[1]', condition: 'trait', people: 0, left: null },
  ];
  for (const key of ['carts', 'live_carts']) {
    const [plan] = await app.sync.plan([key]);
    t.same(plan?.funnel, funnel, key);
    t.equal(plan?.members, 1);
    const taken = async (user: string) =>
      (await app.sync.why(key, user)).steps?.map(({ event, isOver, condition }) =>
        event ? event.messageId : condition === 'not' ? isOver : null,
      );
    t.same(await taken("ann's"), ["ann's|Cart|9", "ann's|Cart|8.5", true], 'a member');
    t.same(await taken('bob'), ['bob|Cart|9', 'bob|Paid|8.5', 'bob|Order|7']);
    t.same(await taken('cleo'), ['cleo|Cart|1', 'cleo|Paid|0.5', false], 'its time has not passed');
    t.same(await taken('dan'), ['dan|Cart|9', null, false]);
    t.same(await taken('gus'), [null, null, false]);
  }
  const [others] = await app.sync.plan(['others']);
  t.same(others?.funnel, [
    { path: 'when', condition: 'not', people: 1, left: 1 },
    { path: 'when.not', condition: 'performed', people: 6, left: null },
  ]);
});
