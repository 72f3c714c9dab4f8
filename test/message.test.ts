import t from 'tap';
import { webhookBody } from '../receivers/bodies.ts';
import { deletionNotice, type Envelope, instant, isRejection, type Message, readMessage } from '../src/message.ts';

const RECEIVED = Date.parse('2026-11-21T03:00:00.000Z');
const envelope: Envelope = { receivedAt: RECEIVED, newId: () => 'made-here' };

function accepted(input: unknown, given: Partial<Envelope> = {}): Message {
  const result = readMessage(input, { ...envelope, ...given });
  if (isRejection(result)) throw new Error(`${result.code}: ${result.message}`);
  return result;
}

function bodyOf(input: unknown, given: Partial<Envelope> = {}) {
  return JSON.parse(accepted(input, given).body);
}

function codeOf(input: unknown, given: Partial<Envelope> = {}) {
  const result = readMessage(input, { ...envelope, ...given });
  return isRejection(result) ? result.code : null;
}

const now = '2026-11-21T03:00:00.000Z';

t.test('makes the bodies of the specification', async (t) => {
  const cases: [input: object, body: object][] = [
    [
      {
        type: 'page',
        userId: 'u',
        name: 'Home',
        properties: { path: '/', referrer: '', title: 'T', url: 'http://a/' },
      },
      { name: 'Home', userId: 'u', properties: { path: '/', referrer: '', title: 'T', url: 'http://a/' } },
    ],
    [
      { type: 'screen', anonymousId: 'a', name: 'Main', context: { os: { name: 'iOS', version: '9' } } },
      { anonymousId: 'a', name: 'Main', context: { os: { name: 'iOS', version: '9' } } },
    ],
    [
      { type: 'identify', userId: 'u', traits: { plan: 'pro' } },
      { userId: 'u', traits: { plan: 'pro' } },
    ],
    [
      { type: 'track', userId: 'u', event: 'Bought', properties: { price: 1.5 } },
      { userId: 'u', event: 'Bought', properties: { price: 1.5 } },
    ],
    [
      { type: 'group', userId: 'u', groupId: 'g', traits: { name: 'G' } },
      { userId: 'u', groupId: 'g', traits: { name: 'G' } },
    ],
    [
      { type: 'alias', userId: 'u', previousId: 'p', messageId: 'm', traits: { a: 1 } },
      { 'Previous ID': 'p', 'User ID': 'u' },
    ],
  ];
  for (const [input, expected] of cases) {
    const body = bodyOf(input);
    const { type } = input as { type: string };
    t.strictSame(body, { version: 1, type, timestamp: now, context: {}, ...expected }, type);
    t.ok(webhookBody.safeParse(body).success, `${type} is what receivers expect`);
  }
  const notice = deletionNotice('u', 'm', RECEIVED);
  t.equal(notice.body, `{"type":"delete","userId":"u","timestamp":"${now}"}`);
  t.match(notice, { type: 'delete', messageId: 'm', userId: 'u', integrations: null });
});

t.test(
  "a page's path, referrer, title and url go out as strings, and the receiver kit forgives what is none",
  async (t) => {
    const properties = Object.freeze({ path: null, referrer: 7, title: true, url: ['/'], other: null });
    const page = { type: 'page', userId: 'u', properties };
    t.strictSame(bodyOf(page).properties, { referrer: '7', title: 'true', other: null });
    const received = webhookBody.parse({ version: 1, ...page, timestamp: now, context: {} });
    t.match(received, { type: 'page', userId: 'u' });
    t.strictSame('properties' in received && received.properties, { other: null });
  },
);

t.test('gives every kind its object, also when it is null or absent', async (t) => {
  for (const [type, details] of [
    ['identify', 'traits'],
    ['group', 'traits'],
    ['track', 'properties'],
    ['page', 'properties'],
  ] as const) {
    const input = { type, userId: 'u', groupId: 'g', event: 'e' };
    t.strictSame(bodyOf(input)[details], {});
    t.strictSame(bodyOf({ ...input, [details]: null })[details], {});
  }
  t.notOk('properties' in bodyOf({ type: 'screen', userId: 'u' }));
});

t.test('passes other fields through, but not null, nor how the message travelled', async (t) => {
  const travel = { writeKey: 'k', sentAt: now, receivedAt: now, _metadata: { a: 1 }, version: 7 };
  const body = bodyOf({
    type: 'identify',
    userId: 'u',
    anonymousId: null,
    channel: 'server',
    messageId: 'm',
    ...travel,
  });
  t.strictSame(body, {
    ...{ version: 1, type: 'identify', userId: 'u', channel: 'server', messageId: 'm' },
    ...{ traits: {}, timestamp: now, context: {} },
  });
});

t.test('leaves its input alone', async (t) => {
  const input = { type: 'track', event: 'e', userId: 'u', context: { a: 1 }, timestamp: '2026-01-01T00:00:00Z' };
  const copy = structuredClone(input);
  readMessage(input, { ...envelope, sentAt: now, context: { b: 2 }, integrations: { All: false } });
  t.strictSame(input, copy);
});

t.test('keeps a given messageId and makes one otherwise', async (t) => {
  t.equal(accepted({ type: 'identify', userId: 'u', messageId: 'mine' }).messageId, 'mine');
  for (const messageId of [undefined, null, '']) {
    t.equal(accepted({ type: 'identify', userId: 'u', messageId }).messageId, 'made-here');
  }
});

t.test('tells routing the user and the integrations', async (t) => {
  t.match(accepted({ type: 'identify', userId: 'u', integrations: { All: false } }), {
    userId: 'u',
    integrations: { All: false },
  });
  t.match(accepted({ type: 'identify', anonymousId: 'a', integrations: {} }), { userId: null, integrations: null });
});

t.test('what all messages of a batch share is merged in, and the message wins', async (t) => {
  const shared = { context: { ip: '1', app: { name: 'x' } }, integrations: { All: false, Webhooks: true } };
  const input = {
    ...{ type: 'track', event: 'e', userId: 'u' },
    ...{ context: { app: { build: '2' } }, integrations: { Webhooks: false } },
  };
  const message = accepted(input, shared);
  t.strictSame(message.integrations, { All: false, Webhooks: false });
  t.match(JSON.parse(message.body), { context: { ip: '1', app: { build: '2' } }, integrations: message.integrations });
  t.notOk('name' in JSON.parse(message.body).context.app, 'by whole fields');
  t.strictSame(bodyOf({ type: 'track', event: 'e', userId: 'u' }, shared).context, shared.context);
});

t.test('rejects with the code of what is wrong', async (t) => {
  const user = { userId: 'u' };
  const cases: [input: unknown, code: string][] = [
    [null, 'invalid_message'],
    [[], 'invalid_message'],
    ['text', 'invalid_message'],
    [{ ...user }, 'unknown_type'],
    [{ ...user, type: 'delete' }, 'unknown_type'],
    [{ ...user, type: 'constructor' }, 'unknown_type'],
    [{ type: 'identify' }, 'no_user_anon_id'],
    [{ type: 'identify', userId: '', anonymousId: null }, 'no_user_anon_id'],
    [{ type: 'page' }, 'no_user_anon_id'],
    [{ type: 'identify', userId: 7 }, 'id_not_string'],
    [{ type: 'identify', userId: 'a\0b' }, 'id_not_string'],
    [{ type: 'identify', ...user, messageId: {} }, 'id_not_string'],
    [{ type: 'identify', ...user, messageId: 'x'.repeat(101) }, 'id_too_long'],
    [{ type: 'identify', ...user, traits: [] }, 'traits_not_object'],
    [{ type: 'identify', ...user, context: 'c' }, 'context_not_object'],
    [{ type: 'identify', ...user, integrations: true }, 'integrations_not_object'],
    [{ type: 'track', ...user }, 'event_not_defined'],
    [{ type: 'track', ...user, event: '' }, 'event_not_defined'],
    [{ type: 'track', ...user, event: null }, 'event_not_defined'],
    [{ type: 'track', ...user, event: 1 }, 'event_not_string'],
    [{ type: 'track', ...user, event: 'e', properties: 'p' }, 'properties_not_object'],
    [{ type: 'page', ...user, name: 1 }, 'name_not_string'],
    [{ type: 'screen', ...user, name: {} }, 'name_not_string'],
    [{ type: 'group', ...user }, 'no_group_id'],
    [{ type: 'group', groupId: 'g' }, 'no_user_anon_id'],
    [{ type: 'alias', ...user }, 'no_previous_id'],
    [{ type: 'alias', previousId: 'p' }, 'no_user_id'],
    [{ type: 'alias', previousId: 'p', anonymousId: 'a' }, 'no_user_id'],
  ];
  for (const [input, code] of cases) t.equal(codeOf(input), code, JSON.stringify(input));
  t.equal(codeOf({ type: 'identify', ...user, messageId: 'x'.repeat(100) }), null);
  t.equal(codeOf({ type: 'alias', ...user, event: 'e' }, { type: 'track' }), null, 'the path decides over the kind');
});

t.test('measures an item as it was sent, to the byte', async (t) => {
  for (const type of ['track', 'alias'] as const) {
    const input = { type, userId: 'u', previousId: 'p', event: 'e', other: '' };
    const room = 32 * 1024 - JSON.stringify(input).length;
    t.equal(codeOf({ ...input, other: 'x'.repeat(room) }), null);
    t.equal(codeOf({ ...input, other: 'x'.repeat(room + 1) }), 'too_large');
    t.equal(codeOf({ ...input, other: 'é'.repeat(room / 2 + 1) }), 'too_large', 'bytes, not characters');
  }
});

t.test('refuses what is nested so deep that receivers would choke on it', async (t) => {
  const nested = (levels: number) => JSON.parse(`${'['.repeat(levels)}${']'.repeat(levels)}`);
  const item = (levels: number) => ({ type: 'track', userId: 'u', event: 'e', properties: { a: nested(levels) } });
  t.equal(codeOf(item(498)), null);
  t.equal(codeOf(item(499)), 'too_deep');
  t.equal(codeOf(item(200_000)), 'too_deep');
  t.equal(codeOf({ type: 'alias', userId: 'u', previousId: 'p', junk: nested(200_000) }), 'too_large');
});

t.test('leaves keys named __proto__ out, at every level', async (t) => {
  const hostile =
    '{"type":"track","userId":"u","event":"__proto__","__proto__":{"x":1},"properties":{"__proto__":{"y":1},"a":[{"__proto__":1,"b":2}]}}';
  const { body } = accepted(JSON.parse(hostile));
  t.match(JSON.parse(body), { event: '__proto__', properties: { a: [{ b: 2 }] } });
  t.notMatch(body, '"__proto__":');
  t.equal(JSON.parse(body).x, undefined);
});

t.test('understands every form of timestamp that clients send', async (t) => {
  const at = Date.parse('2026-11-21T02:35:56.123Z');
  for (const text of [
    ...['2026-11-21T02:35:56.123Z', '2026-11-21T02:35:56.123456789Z', '2026-11-21T02:35:56.123456+00:00'],
    ...['2026-11-21T02:35:56.123+0000', '2026-11-21T03:35:56.123+0100', '2026-11-21T03:35:56.123+01'],
    ...[
      '2026-11-20T21:05:56.123-05:30',
      '2026-11-21 02:35:56.123',
      '2026-11-21T02:35:56,123z',
      '2026-11-21T02:35:56.123',
    ],
  ]) {
    t.equal(instant(text), at, text);
  }
  t.equal(instant(at), at);
  t.equal(instant('2026-11-21T02:35:56+0000'), Date.parse('2026-11-21T02:35:56Z'));
  t.equal(instant('2026-11-21T02:35Z'), Date.parse('2026-11-21T02:35:00Z'));
  t.equal(instant('2026-11-21'), Date.parse('2026-11-21T00:00:00Z'));
  for (const nonsense of [
    ...['', 'yesterday', '1', '2026-13-01', '2026-11-21T25:00:00Z', '+275760-09-13T00:00:00Z', 'Nov 21 2026'],
    ...[null, undefined, {}, Number.NaN, Number.POSITIVE_INFINITY, 8.64e15, -8.64e15],
  ]) {
    t.equal(instant(nonsense), null, String(nonsense));
  }
});

t.test('corrects the timestamp by the time between sending and arrival', async (t) => {
  const track = { type: 'track', event: 'e', userId: 'u' };
  const timestamp = '2026-11-21T01:59:00+0000';
  const times = (input: object, given: Partial<Envelope> = {}) => {
    const { timestamp, originalTimestamp } = bodyOf({ ...track, ...input }, given);
    return [timestamp, originalTimestamp];
  };
  t.strictSame(times({ timestamp }, { sentAt: '2026-11-21T02:00:00Z' }), ['2026-11-21T02:59:00.000Z', timestamp]);
  t.strictSame(times({ timestamp, sentAt: '2026-11-21T01:59:30Z' }, { sentAt: 'x' }), [
    '2026-11-21T02:59:30.000Z',
    timestamp,
  ]);
  t.strictSame(times({ timestamp }), ['2026-11-21T01:59:00.000Z', undefined], 'as given without sentAt');
  t.strictSame(times({ timestamp }, { sentAt: 'nonsense' }), ['2026-11-21T01:59:00.000Z', undefined]);
  t.strictSame(times({}, { sentAt: '2020-01-01T00:00:00Z' }), [now, undefined], 'that of arrival when absent');
  t.strictSame(times({ timestamp: 'nonsense' }), [now, undefined], 'or not understood');
  t.strictSame(times({ originalTimestamp: timestamp, sentAt: timestamp }), [now, timestamp], 'RudderStack');
  t.strictSame(
    times({ timestamp: '0001-01-01T00:00:00Z', sentAt: '9999-01-01T00:00:00Z' }),
    ['0001-01-01T00:00:00.000Z', undefined],
    'a correction beyond the calendar is none',
  );
});
