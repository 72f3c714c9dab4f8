import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { kinds, type WebhookBody, webhookBody } from '../../receivers/bodies.ts';
import { pageKeys } from '../../receivers/kinds.ts';
import { isPlain } from '../../receivers/parse/plain.ts';
import { samples as bodies } from './helpers/samples.ts';

const timestamp = '2026-01-02T03:04:05.678Z';
const samples: Record<string, Record<string, unknown>> = bodies;

t.test('parses each kind as sent', async (t) => {
  for (const [kind, body] of Object.entries(samples)) t.same(webhookBody.parse(body), body, kind);
});

t.test('passes unknown fields through', async (t) => {
  const { userId: _, ...anonymous } = samples['track'] as Record<string, unknown>;
  const more = { ...anonymous, anonymousId: 'a', messageId: 'm', integrations: { All: false }, channel: 'server' };
  t.same(webhookBody.parse(more), more);
});

t.test('gives the category of a page or screen as a text, or omits it', async (t) => {
  for (const kind of ['page', 'screen'] as const) {
    t.match(webhookBody.parse({ ...bodies[kind], category: 'Shoes' }), { category: 'Shoes' });
    t.match(webhookBody.parse({ ...bodies[kind], category: null }), { category: undefined });
  }
});

t.test('fills in a missing context, traits or properties with an empty object', async (t) => {
  const { context: _, traits: __, ...bare } = samples['identify'] as Record<string, unknown>;
  t.match(webhookBody.parse(bare), { context: {}, traits: {} });
});

t.test('refuses bodies that break the contract', async (t) => {
  const wrong: [string, Record<string, unknown>][] = [
    ['track', { event: undefined }],
    ['track', { event: 7 }],
    ['track', { properties: [] }],
    ['identify', { traits: 'x' }],
    ['identify', { traits: null }],
    ['identify', { userId: null }],
    ['identify', { version: 2 }],
    ['identify', { timestamp: '2026-01-02' }],
    ['identify', { timestamp: '2026-01-02T03:04:05+01:00' }],
    ['identify', { context: [] }],
    ['group', { groupId: undefined }],
    ['alias', { 'Previous ID': undefined }],
    ['alias', { 'User ID': 5 }],
    ['delete', { userId: undefined }],
    ['track', { type: 'Track' }],
    ['track', { type: '__proto__' }],
  ];
  for (const [kind, change] of wrong) {
    t.notOk(webhookBody.safeParse({ ...samples[kind], ...change }).success, JSON.stringify([kind, change]));
  }
  for (const body of [null, [], 'x', 1]) t.notOk(webhookBody.safeParse(body).success, JSON.stringify(body));
});

t.test('keeps __proto__ as a plain key of the free-form parts', async (t) => {
  const body = JSON.parse(
    `{"version":1,"type":"identify","userId":"u1","timestamp":"${timestamp}","context":{},"traits":{"__proto__":{"admin":true}},"__proto__":{"admin":true}}`,
  );
  const parsed: WebhookBody & { admin?: boolean } = webhookBody.parse(body);
  t.equal(parsed.admin, undefined);
  t.equal(parsed.type === 'identify' && parsed.traits['admin'], undefined);
  t.equal(({} as { admin?: boolean }).admin, undefined);
});

/** Without what is undefined. */
const overTheWire = (body: object): Record<string, unknown> => JSON.parse(JSON.stringify(body));

/** Values that clients and their mistakes put into the fields that a schema looks at. */
const anything = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom<unknown>({}, 'text', timestamp, undefined) },
  fc.constantFrom<unknown>(null, 0, 1, true, [], ['x'], '', '2026-02-30T00:00:00.000Z', '2026-01-02T03:04:05Z', {
    a: 1,
  }),
);
const fields = [...new Set(webhookBody.options.flatMap(({ shape }) => Object.keys(shape))), 'channel'].filter(
  (field) => field !== 'type',
);
const page = fc.record(Object.fromEntries([...pageKeys, 'other'].map((key) => [key, anything])), { requiredKeys: [] });

t.test('accepts a body without the schema only if the schema would not change it', (t) => {
  let taken = 0;
  const changed = fc.record({
    kind: fc.constantFrom(...kinds),
    changes: fc.dictionary(fc.constantFrom(...fields), anything, { maxKeys: 3 }),
    properties: fc.option(page, { nil: undefined }),
  });
  fc.assert(
    fc.property(changed, ({ kind, changes, properties }) => {
      const body = overTheWire({ ...samples[kind], ...(properties && { properties }), ...changes });
      if (!isPlain(body)) return;
      taken += 1;
      assert.deepEqual(webhookBody.parse(body), body);
    }),
    { numRuns: 3_000 },
  );
  t.ok(taken > 300, `${taken} were taken`);
  t.end();
});

t.test('accepts every complete body without the schema', (t) => {
  for (const [kind, body] of Object.entries(samples)) t.ok(isPlain(body), kind);
  for (const body of [[], {}, { type: 'toString' }, { type: '__proto__' }]) t.notOk(isPlain(body as never));
  t.end();
});
