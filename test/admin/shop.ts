import type { Test } from 'tap';
import { SECRETS, startService } from './service.ts';

/** A service whose log has a few people, with an audience of each kind. */
export async function shop(t: Test, over: object = {}, folder = t.testdir()) {
  const service = await startService(
    t,
    {
      store: 'sqlite:./rollcall.db',
      eventLog: {},
      audiences: [
        { name: 'Buyers', source: 'shop', when: { performed: 'Order Completed' } },
        {
          name: 'By hand',
          source: 'shop',
          sql: "select 'u' || range as user_id, '\u0024{VARIABLE}' as note from range(4)",
        },
        { name: 'Live ones', source: 'shop', live: true, when: { performed: 'Cart Viewed' } },
      ],
      traits: [{ name: 'Orders', source: 'shop', value: { count: 'Order Completed' } }],
      ...over,
    },
    { folder },
  );
  const now = Date.now();
  const event = (userId: string, event: string, daysAgo: number, properties = {}) => ({
    ...{ type: 'track', userId, event, properties },
    timestamp: new Date(now - daysAgo * 86_400_000).toISOString(),
  });
  const batch = [
    event('u1', 'Order Completed', 1, { total: 30, 'cart id': 'c' }),
    event('u1', 'Order Completed', 5, { total: 5 }),
    event('u2', 'Order Completed', 20, { total: 90 }),
    event('u3', 'Cart Viewed', 0),
    { type: 'page', userId: 'u3', name: 'Home', properties: { path: '/' } },
    { type: 'identify', userId: 'u1', traits: { plan: 'pro', age: 40 } },
    { type: 'identify', userId: 'u2', traits: { plan: 'free' } },
  ];
  const sent = await service.ask('/v1/batch', {
    method: 'POST',
    token: null,
    headers: { 'content-type': 'application/json', authorization: `Basic ${btoa(`${SECRETS.writeKey}:`)}` },
    body: JSON.stringify({ batch }),
  });
  t.equal(sent.status, 200);
  return service;
}
