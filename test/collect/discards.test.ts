import { setImmediate as turn } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import t from 'tap';
import { type DiscardSample, Discards } from '../../src/collect/discards.ts';
import { maskedStart, sampleOf } from '../../src/collect/sample.ts';
import { ManualClock } from '../helpers/clock.ts';
import { authorization, basic, startService, track } from './service.ts';

type Seen = [source: string | null, code: string, start: string | null];

function watched(t: Parameters<typeof startService>[0]) {
  const seen: Seen[] = [];
  const service = startService(t, { onDiscard: (...discard) => seen.push(discard) });
  const send = (url: string, payload: string | Buffer | object, headers: Record<string, string> = { authorization }) =>
    service.app.inject({ method: 'POST', url, payload, headers });
  return { ...service, seen, send };
}

t.test('reports every message rejected within a 200, with its source and code', async (t) => {
  const { seen, send } = watched(t);
  const batch = [track, { type: 'track', userId: 'person-1' }, 'text', { ...track, properties: 'oops', plan: 7 }];
  t.equal((await send('/v1/batch', { batch })).statusCode, 200);
  t.strictSame(
    seen.map(([source, code]) => [source, code]),
    [
      ['shop', 'event_not_defined'],
      ['shop', 'invalid_message'],
      ['shop', 'properties_not_object'],
    ],
  );
  t.strictSame(JSON.parse(seen[0]?.[2] ?? ''), { type: 'track', userId: '[8 characters]' });
  t.strictSame(JSON.parse(seen[2]?.[2] ?? ''), {
    ...{ type: 'track', event: 'Bought', userId: '[2 characters]', properties: '[4 characters]', plan: '[number]' },
  });
});

t.test('reports refused requests too, except those that clients send again', async (t) => {
  const { seen, send } = watched(t);
  const cases: [url: string, payload: string | Buffer | object, code: string, start: string | null][] = [
    ['/v1/track', { userId: 'u' }, 'event_not_defined', '{"userId":"[1 character]"}'],
    ['/v1/batch', { batch: [] }, 'empty_batch', '{}'],
    ['/v1/batch', { batch: [track], context: 'c' }, 'context_not_object', '{"context":"[1 character]"}'],
    ['/v1/batch', 'batch=Ada+7', 'invalid_json', 'xxxxx=xxx+0'],
    ['/v1/batch', '{"batch":[{"userId":"u1","a":tru}]}', 'invalid_json', '{"xxxxx":[{"xxxxxx":"x0","x":xxx}]}'],
    ['/v1/track', { ...track, properties: { a: 'x'.repeat(40_000) } }, 'too_large', null],
    ['/v1/track', gzipSync('{"userId":"person-1"'), 'invalid_json', '{"xxxxxx":"xxxxxx-0"'],
    ['/v1/track', Buffer.from([0x7b, 0x00, 0xff]), 'invalid_json', '{..'],
  ];
  for (const [url, payload, code, start] of cases) {
    const encoding = Buffer.isBuffer(payload) && payload[0] === 0x1f ? { 'content-encoding': 'gzip' } : {};
    await send(url, payload, { authorization, ...encoding });
    t.strictSame(seen.splice(0), [['shop', code, start]], code);
  }
  await send('/v1/track', { ...track, writeKey: 'WK_closed' }, {});
  await send('/v1/track', track, { authorization: basic('WK_closed') });
  t.match(seen.splice(0), [
    ['closed', 'source_disabled'],
    ['closed', 'source_disabled', null],
  ]);
  const failing = startService(t, {
    onDiscard: (...discard) => seen.push(discard),
    accept: async () => {
      throw new Error('the disk');
    },
  });
  await failing.app.inject({ method: 'POST', url: '/v1/track', payload: track, headers: { authorization } });
  t.strictSame(seen, [], 'a 500 is sent again');
});

t.test('counts requests without a known key, and keeps nothing else of them', async (t) => {
  const { app, seen, send } = watched(t);
  await send('/v1/track', { ...track, writeKey: 'made-up' }, {});
  await send('/v1/track', track, { authorization: basic('made-up') });
  await send('/v1/batch?writeKey=made-up', '{', {});
  await app.inject({ url: `/v1/pixel/track?data=${Buffer.from('{"writeKey":"made-up"}').toString('base64')}` });
  t.strictSame(
    seen.map(([source, code]) => [source, code]),
    Array.from({ length: 4 }, () => [null, 'unknown_source']),
  );
});

t.test('reports a refused pixel', async (t) => {
  const { app, seen } = watched(t);
  const data = Buffer.from(JSON.stringify({ writeKey: 'WK_shop', userId: 'person-1' })).toString('base64');
  await app.inject({ url: `/v1/pixel/track?data=${data}` });
  t.strictSame(seen, [['shop', 'event_not_defined', '{"writeKey":"[7 characters]","userId":"[8 characters]"}']]);
});

t.test('samples the outline of a message, and nothing that may be personal', async (t) => {
  const message = {
    ...{ type: 'identify', messageId: 'order-of-person-77', userId: 'person-77', anonymousId: 7, event: null },
    traits: { email: 'ada@example.com', age: 36, address: { city: 'Zürich' }, tags: ['a'], 'ada@example.com': true },
    context: { ip: '203.0.113.7', library: { name: 'lib' } },
    timestamp: '2026-01-01',
  };
  t.strictSame(JSON.parse(sampleOf(message)), {
    ...{ type: 'identify', messageId: 'order-of-[id]', userId: '[9 characters]', anonymousId: '[number]', event: null },
    traits: {
      ...{ email: '[15 characters]', age: '[number]', address: { city: '[6 characters]' } },
      ...{ tags: ['[1 character]'], '[key]': true },
    },
    context: { ip: '[11 characters]', library: { name: '[3 characters]' } },
    timestamp: '2026-01-01',
  });
  t.equal(maskedStart(Buffer.from('{"email":ada@example.com, 42, "é漢"')), '{"xxxxx":xxx@xxxxxxx.xxx, 00, "xx"');
});

t.test('writes samples as JSON with unchanged field names, even if an id is part of one', async (t) => {
  const outline = { type: 'track', event: 'Bought', traits: { plan: null, paid: true }, list: [{ of: {} }] };
  for (const userId of ['null', 'true', '}}]', ',"o', 'ent', 'character', 'traits', 'a', '\\'])
    t.strictSame(JSON.parse(sampleOf({ ...outline, messageId: userId, userId })), {
      ...outline,
      messageId: '[id]',
      userId: `[${userId.length} character${userId.length === 1 ? '' : 's'}]`,
    });
  t.strictSame(JSON.parse(sampleOf({ userId: 123, messageId: 123, timestamp: 51_234, sentAt: 7, u123: 1, 123: 1 })), {
    ...{ userId: '[number]', messageId: '[id]', timestamp: '5[id]4', sentAt: 7 },
    ...{ 'u[id]': '[number]', '[key]': '[number]' },
  });
});

t.test('keeps samples small and free of ids, whatever the message is', async () => {
  const names = ['type', 'event', 'messageId', 'userId'];
  const id = fc
    .string({ minLength: 3, maxLength: 40 })
    .filter((text) => text.trim() !== '' && !['[id]', ...names].some((word) => word.includes(text)));
  const value = fc.jsonValue({ maxDepth: 8 });
  const shape = fc.tuple(id, fc.dictionary(fc.string(), value, { maxKeys: 60 }), fc.nat(100_000), value);
  fc.assert(
    fc.property(shape, ([userId, rest, length, event]) => {
      const sample = sampleOf({
        userId,
        ...rest,
        event,
        traits: { text: 'é'.repeat(length), userId },
        about: `${userId}!`,
      });
      JSON.parse(sample);
      if (sample.length > 4_000) throw new Error(`${sample.length} characters`);
      if (sample.includes('é')) throw new Error(sample);
    }),
    { numRuns: 200 },
  );
  fc.assert(
    fc.property(id, (userId) => {
      const sample = sampleOf({
        type: 'track',
        event: `x ${userId}`,
        messageId: userId,
        userId,
        [`by ${userId}`]: userId,
      });
      const fields = JSON.parse(sample);
      const said = [fields.event, fields.messageId, ...Object.keys(fields)];
      if (said.some((text) => text.includes(userId)) || fields.messageId !== '[id]') throw new Error(sample);
    }),
    { numRuns: 200 },
  );
});

t.test('saves samples a second later, also while the log does not repeat itself', async (t) => {
  const clock = new ManualClock();
  const saved: string[] = [];
  const lines: object[] = [];
  const log = { debug() {}, info() {}, error() {}, warn: (fields: object) => void lines.push(fields) };
  const discards = new Discards({
    ...{ clock, log, kept: 3, onDiscard() {} },
    save: async (samples) => void saved.push(...samples.map(({ message }) => message)),
  });
  for (const message of ['first', 'second', 'third', 'fourth']) {
    discards.add('shop', 'id_not_string', message);
    clock.advance(1_000);
    await turn();
    t.equal(saved.at(-1), message);
    clock.advance(1_000);
  }
  t.match(lines, [{ count: 1 }], 'not a line for each');
  clock.advance(60_000);
  t.match(lines.slice(1), [{ count: 3 }], 'but none is left untold, though nothing more comes');
});

t.test('saves the newest samples of each source a second later, with one log line for many', async (t) => {
  const clock = new ManualClock();
  const saved: DiscardSample[][] = [];
  const counted: string[] = [];
  const lines: object[] = [];
  const log = { debug() {}, info() {}, error() {}, warn: (fields: object) => void lines.push(fields) };
  let fails = false;
  const discards = new Discards({
    ...{ clock, log, kept: 3 },
    save: async (samples) => {
      if (fails) throw new Error('the disk');
      saved.push([...samples]);
    },
    onDiscard: (source, code) => void counted.push(`${source} ${code}`),
  });
  for (let n = 0; n < 5; n += 1) discards.add('shop', 'id_not_string', `{"n":${n}}`);
  discards.add('web', 'too_large', '');
  discards.add('', 'unknown_source', null);
  t.equal(counted.length, 7);
  t.same([saved, lines], [[], []]);
  await clock.advance(1_000);
  await discards.flush();
  t.same(
    saved
      .splice(0)
      .flat()
      .map(({ source, message }) => [source, message]),
    [
      ['shop', '{"n":2}'],
      ['shop', '{"n":3}'],
      ['shop', '{"n":4}'],
      ['web', ''],
    ],
  );
  t.same(lines.splice(0), [
    { stage: 'collect', source: 'shop', code: 'id_not_string', count: 5, sample: '{"n":0}' },
    { stage: 'collect', source: 'web', code: 'too_large', count: 1 },
    { stage: 'collect', code: 'unknown_source', count: 1 },
  ]);
  discards.add('shop', 'id_not_string', '{"n":5}');
  await clock.advance(1_000);
  await discards.flush();
  t.equal(saved.splice(0).length, 1);
  t.same(lines, [], 'not a line for each');
  await clock.advance(60_000);
  await discards.flush();
  t.match(lines.splice(0), [{ code: 'id_not_string', count: 1 }], 'but none is left untold');
  fails = true;
  discards.add('shop', 'id_not_string', '{}');
  await discards.flush();
  t.match(lines.splice(0), [{ err: Error }]);
});
