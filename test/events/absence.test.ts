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
  }
  t.equal((await app.sync.why('listed', 'nobody')).absence, null, 'SQL does not say');
});
