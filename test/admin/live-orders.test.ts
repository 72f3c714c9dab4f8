import t from 'tap';
import { CONFIG, startService, V1 } from './service.ts';

t.test('refuses another time for a live audience, without answering that it has begun', async (t) => {
  const audiences = [{ name: 'Buyers', source: 'shop', live: true, when: { performed: 'Order Completed' } }];
  const { post, json } = await startService(t, { audiences, eventLog: { keep: '30d' } });
  for (const wait of [false, true]) {
    const answer = await post(`${V1}/audiences/buyers/sync?wait=${wait}`, { now: '2026-01-01T00:00:00Z' });
    t.equal(answer.status, 400);
    t.match(await answer.json(), { code: 'bad_usage', message: /no other time can be asked for: buyers/ });
  }
  t.match((await json(`${V1}/audit`)).data, [{ outcome: 'bad_usage' }, { outcome: 'bad_usage' }]);
});

t.test(
  'plans an audience that the configuration pauses, and answers orders to resume or sync it with the cause of the pause',
  async (t) => {
    const audiences = [
      ...CONFIG.audiences,
      { name: 'Asleep', source: 'shop', paused: true, sql: 'select 1 as user_id' },
    ];
    const { post, json } = await startService(t, { audiences });
    t.match(await json(`${V1}/audiences/asleep/plan`), { key: 'asleep', members: 1, paused: null });
    t.match(await (await post(`${V1}/audiences/asleep/resume`)).json(), { state: 'paused', paused: null });
    const synced = await post(`${V1}/audiences/asleep/sync`);
    t.equal(synced.status, 409);
    t.match(await synced.json(), { code: 'audience_paused', message: /^asleep is paused in the configuration: / });
  },
);
