import t from 'tap';
import type { Destination } from '../src/destination.ts';
import type { MessageType } from '../src/message-types.ts';
import { createRouters, route } from '../src/route/route.ts';

const make = (name: string, sources: string[], enabled = true): Destination => ({
  name,
  sources,
  enabled,
  secrets: [],
  endpoints: [{ id: name, url: 'https://x.example/', headers: {} }],
  require: 'any',
  ratePerSecond: null,
});
const all = [make('a', ['shop', 'app']), make('b', ['shop']), make('off', ['shop'], false)];
const names = (source: string, integrations: Record<string, unknown> | null) =>
  route(source, integrations, all).map(({ name }) => name);

t.test('sends a message to every enabled destination that its source is connected to', async (t) => {
  t.same(names('shop', null), ['a', 'b']);
  t.same(names('app', null), ['a']);
  t.same(names('other', null), []);
});

const rules: readonly (readonly [Record<string, unknown>, boolean])[] = [
  [{}, true],
  [{ Webhooks: true }, true],
  [{ Webhooks: { any: 'settings' } }, true],
  [{ Webhooks: {} }, true],
  [{ Webhooks: false }, false],
  [{ All: true }, true],
  [{ All: false }, false],
  [{ All: false, Webhooks: true }, true],
  [{ All: false, Webhooks: {} }, true],
  [{ All: true, Webhooks: false }, false],
  [{ All: false, Webhooks: null }, false],
  [{ All: false, Webhooks: 'yes' }, false],
  [{ All: null }, true],
  [{ Slack: false }, true],
  [{ All: false, Slack: true }, false],
  [{ webhooks: false }, true],
  [{ WEBHOOKS: false, ALL: false }, true],
  [{ all: false }, false],
  [{ all: false, Webhooks: true }, true],
  [{ all: true }, true],
  [{ All: true, all: false }, false],
  [{ All: false, webhooks: true }, false],
];
for (const [integrations, isSent] of rules) {
  t.test(`${JSON.stringify(integrations)} ${isSent ? 'sends' : 'keeps back'}`, async (t) => {
    t.same(names('shop', integrations), isSent ? ['a', 'b'] : []);
  });
}

t.test('ignores keys that an object inherits', async (t) => {
  t.same(names('shop', Object.create({ All: false, Webhooks: false })), ['a', 'b']);
  t.same(names('shop', JSON.parse('{"__proto__":{"All":false}}')), ['a', 'b']);
});

t.test('sends a destination the kinds and events that it wants', async (t) => {
  const destinations: Destination[] = [
    make('all', ['shop']),
    { ...make('tracks', ['shop']), wants: { types: ['track'] } },
    { ...make('orders', ['shop']), wants: { events: ['Order Completed'] } },
    { ...make('none', ['shop']), wants: { types: [] } },
    { ...make('off', ['shop'], false), wants: { types: ['track'] } },
    { ...make('people', ['shop']), wants: { audiences: [] } },
  ];
  const routerOf = createRouters(() => destinations);
  const routed = routerOf('shop');
  const to = (type: MessageType, event?: string) => routed({ type, event, integrations: null });
  t.same(to('track', 'Order Completed'), ['all', 'tracks', 'orders', 'people']);
  t.same(to('track', 'Order Cancelled'), ['all', 'tracks', 'people']);
  t.same(to('page'), ['all', 'orders', 'people'], 'other kinds than track pass a filter of events');
  t.same(to('identify'), ['all', 'orders', 'people'], 'what an app says of users is no audience');
  t.same(routed({ type: 'track', event: 'x', integrations: { All: false } }), []);
  t.same(routerOf('other')({ type: 'track', event: 'x', integrations: null }), []);
  t.equal(to('track', '__proto__'), to('track', '__proto__'), 'one list for all of a sort');
});

t.test('shares one list of names between requests, for as long as the destinations are the same', async (t) => {
  let destinations = [make('all', ['shop'])];
  const routerOf = createRouters(() => destinations);
  const to = (integrations: Record<string, unknown> | null = null) =>
    routerOf('shop')({ type: 'track', event: 'x', integrations });
  t.equal(to(), to());
  t.equal(to({ All: false }), to({ All: false }));
  destinations = [make('other', ['shop'])];
  t.same(to(), ['other']);
});

t.test('keeps lists for a bounded number of events, which clients make up', async (t) => {
  const routed = createRouters(() => [{ ...make('a', ['shop']), wants: { events: ['x'] } }])('shop');
  const to = (event: string) => routed({ type: 'track', event, integrations: null });
  const first = to('x');
  for (let n = 0; n < 1_000; n += 1) t.same(to(`other ${n}`), []);
  t.not(to('x'), first);
  t.same(to('x'), ['a']);
});
