import t from 'tap';
import { webhookBody } from '../receivers/bodies.ts';
import type { IpMode } from '../src/kernel/ip.ts';
import { instant } from '../src/kernel/timestamp.ts';
import { deletionNotice, isRejection, type Message, type MessageEnvelope, readMessage } from '../src/message.ts';

const RECEIVED = Date.parse('2026-11-21T03:00:00.000Z');
const envelope: MessageEnvelope = { receivedAt: RECEIVED, newId: () => 'made-here' };

function accepted(input: unknown, given: Partial<MessageEnvelope> = {}): Message {
  const result = readMessage(input, { ...envelope, ...given });
  if (isRejection(result)) throw new Error(`${result.code}: ${result.message}`);
  return result;
}

function bodyOf(input: unknown, given: Partial<MessageEnvelope> = {}) {
  return JSON.parse(accepted(input, given).body);
}

function codeOf(input: unknown, given: Partial<MessageEnvelope> = {}) {
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
      { 'Previous ID': 'p', 'User ID': 'u', traits: { a: 1 }, messageId: 'm' },
    ],
  ];
  for (const [input, expected] of cases) {
    const body = bodyOf(input);
    const { type } = input as { type: string };
    const made = { messageId: 'made-here', timestamp: now, receivedAt: now, context: {} };
    t.strictSame(body, { version: 1, type, ...made, ...expected }, type);
    t.ok(webhookBody.safeParse(body).success, `${type} is what receivers expect`);
  }
  const notice = deletionNotice('u', 'm', RECEIVED);
  t.equal(notice.body, `{"type":"delete","userId":"u","timestamp":"${now}"}`);
  t.match(notice, { type: 'delete', messageId: 'm', userId: 'u', integrations: null });
});

t.test(
  "sends a page's path, referrer, title and url as strings, and the receiver kit forgives other values",
  async (t) => {
    const properties = Object.freeze({ path: null, referrer: 7, title: true, url: ['/'], other: null });
    const page = { type: 'page', userId: 'u', properties };
    t.strictSame(bodyOf(page).properties, { referrer: '7', title: 'true', other: null });
    const received = webhookBody.parse({ version: 1, ...page, timestamp: now, context: {} });
    t.match(received, { type: 'page', userId: 'u' });
    t.strictSame('properties' in received && received.properties, { other: null });
  },
);

t.test('gives every kind its object, even if it is null or absent', async (t) => {
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

t.test('copies the traits of an identify from its context if it has no others', async (t) => {
  const context = { traits: { plan: 'pro' } };
  const body = bodyOf({ type: 'identify', userId: 'u', context });
  t.strictSame([body.traits, body.context], [{ plan: 'pro' }, context]);
  t.strictSame(bodyOf({ type: 'identify', userId: 'u', traits: {}, context }).traits, {}, 'its own go first');
  t.strictSame(bodyOf({ type: 'identify', userId: 'u', context: { traits: 'p' } }).traits, {});
  t.strictSame(bodyOf({ type: 'group', userId: 'u', groupId: 'g', context }).traits, {}, 'those are the user’s');
});

t.test('passes other fields through, except null and those about transport', async (t) => {
  const travel = { writeKey: 'k', sentAt: now, receivedAt: 'long ago', _metadata: { a: 1 }, version: 7 };
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
    ...{ traits: {}, timestamp: now, receivedAt: now, context: {} },
  });
});

t.test('gives an alias the fields of other kinds, but its ids under names of its own', async (t) => {
  const input = {
    ...{ type: 'alias', userId: 7, previousId: 'p', anonymousId: 8, traits: [], integrations: { Slack: true } },
    ...{ context: { traits: { plan: 'pro' } }, timestamp: '2026-11-21T01:00:00Z', 'User ID': 'other' },
  };
  const body = bodyOf(input, { sentAt: '2026-11-21T02:00:00Z' });
  t.strictSame(body, {
    ...{ version: 1, type: 'alias', messageId: 'made-here', 'Previous ID': 'p', 'User ID': '7', anonymousId: '8' },
    ...{ traits: {}, integrations: { Slack: true }, context: { traits: { plan: 'pro' } } },
    ...{ timestamp: '2026-11-21T02:00:00.000Z', originalTimestamp: '2026-11-21T01:00:00Z', receivedAt: now },
  });
  t.ok(webhookBody.safeParse(body).success);
});

t.test('turns numbers as ids into text, in every kind and place', async (t) => {
  const ids = { userId: 42, anonymousId: 1.5, messageId: 7, groupId: 0, previousId: -1 };
  const texts = { userId: '42', anonymousId: '1.5', messageId: '7', groupId: '0', previousId: '-1' };
  for (const type of ['identify', 'track', 'page', 'screen', 'group']) {
    const message = accepted({ type, event: 'e', ...ids });
    t.match(message, { userId: '42', messageId: '7' });
    t.match(JSON.parse(message.body), texts, type);
  }
  const alias = accepted({ type: 'alias', ...ids });
  t.match(alias, { userId: '42', messageId: '7' });
  t.match(JSON.parse(alias.body), { 'Previous ID': '-1', 'User ID': '42', anonymousId: '1.5', groupId: '0' });
  for (const lost of [2 ** 53, -(2 ** 60), 1e300, Number.POSITIVE_INFINITY]) {
    t.equal(codeOf({ type: 'identify', userId: lost }), 'id_not_string', `${lost} has lost digits on its way`);
  }
});

t.test('treats an id of blanks as absent', async (t) => {
  t.equal(codeOf({ type: 'identify', userId: ' ', anonymousId: '' }), 'no_user_anon_id');
  t.equal(codeOf({ type: 'group', userId: 'u', groupId: '\t' }), 'no_group_id');
  const body = bodyOf({ type: 'identify', userId: ' ', anonymousId: 'a' });
  t.notOk('userId' in body);
});

t.test('accepts an empty list for an empty object, wherever one belongs', async (t) => {
  for (const type of ['identify', 'track', 'page', 'screen', 'group', 'alias']) {
    const empty = { traits: [], properties: [], context: [], integrations: [] };
    const message = accepted({ type, event: 'e', userId: 'u', groupId: 'g', previousId: 'p', ...empty });
    t.match(JSON.parse(message.body), { traits: {}, properties: {}, context: {}, integrations: {} }, type);
    t.notMatch(message.body, '[]');
    t.equal(message.integrations, null);
    t.equal(
      codeOf({ type, event: 'e', userId: 'u', groupId: 'g', previousId: 'p', context: [1] }),
      'context_not_object',
    );
  }
  t.strictSame(bodyOf({ type: 'track', event: 'e', userId: 'u', properties: { list: [] } }).properties, { list: [] });
});

t.test('treats `all` and `All` as one name when a message overrides its batch', async (t) => {
  const of = (shared: object, own: object) =>
    accepted({ type: 'identify', userId: 'u', integrations: own }, { integrations: { ...shared } }).integrations;
  t.strictSame(of({ All: false, Slack: true }, { all: true }), { Slack: true, all: true });
  t.strictSame(of({ all: true }, { All: false }), { All: false });
  t.strictSame(of({ all: false }, { Webhooks: true }), { all: false, Webhooks: true });
});

t.test('keeps, anonymises or drops context.ip, and adds that of a browser', async (t) => {
  const ip = (context: object, mode: IpMode, from: string | null = null) =>
    bodyOf({ type: 'identify', userId: 'u', context }, { ip: { mode, from } }).context.ip;
  t.equal(ip({}, 'keep', '203.0.113.7'), '203.0.113.7');
  t.equal(ip({}, 'keep', '::ffff:203.0.113.7'), '203.0.113.7', 'IPv4 in the clothes of IPv6');
  t.equal(ip({ ip: '198.51.100.1' }, 'keep', '203.0.113.7'), '198.51.100.1', 'what the client says goes first');
  t.equal(ip({ ip: '198.51.100.1' }, 'anonymise'), '198.51.100.0');
  t.equal(ip({}, 'anonymise', '2001:db8:1:2:3:4:5:6'), '2001:db8:1::');
  t.equal(ip({ ip: 'somewhere' }, 'anonymise', '203.0.113.7'), undefined, 'what is no address may be anything');
  t.equal(ip({ ip: '198.51.100.1' }, 'drop', '203.0.113.7'), undefined);
  t.equal(ip({}, 'keep'), undefined);
  t.strictSame(
    bodyOf({ type: 'identify', userId: 'u', context: { locale: 'de' } }, { ip: { mode: 'keep', from: '::1' } }).context,
    { locale: 'de', ip: '::1' },
  );
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

t.test('gives routing the user and the integrations', async (t) => {
  t.match(accepted({ type: 'identify', userId: 'u', integrations: { All: false } }), {
    userId: 'u',
    integrations: { All: false },
  });
  t.match(accepted({ type: 'identify', anonymousId: 'a', integrations: {} }), { userId: null, integrations: null });
});

t.test('merges in the shared fields of a batch, over which the message wins', async (t) => {
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

t.test('removes our own word `personas` from the context of each kind, and nothing else', async (t) => {
  const personas = { computation_class: 'audience', computation_key: 'admins', sequence: Number.MAX_SAFE_INTEGER };
  const near = { Personas: 1, personas_: 2, traits: { personas }, note: 'personas' };
  const kinds: readonly object[] = [
    { type: 'identify' },
    ...[{ type: 'track', event: 'e' }, { type: 'page' }, { type: 'screen' }],
    ...[
      { type: 'group', groupId: 'g' },
      { type: 'alias', previousId: 'p' },
    ],
  ];
  for (const kind of kinds) {
    const input = { ...kind, userId: 'u', context: { personas, ...near } };
    t.strictSame(bodyOf(input).context, near);
    t.strictSame(bodyOf({ ...kind, userId: 'u' }, { context: { personas, ...near } }).context, near);
    t.strictSame(bodyOf(input, { context: { personas: null, shared: 1 } }).context, { shared: 1, ...near });
    t.strictSame(bodyOf(input, { ip: { mode: 'keep', from: '::1' } }).context, { ...near, ip: '::1' });
  }
  t.strictSame(bodyOf({ type: 'identify', userId: 'u', context: { personas } }).context, {});
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
    [{ type: 'identify', userId: true }, 'id_not_string'],
    [{ type: 'identify', userId: ['u'] }, 'id_not_string'],
    [{ type: 'identify', userId: 'a\0b' }, 'id_not_string'],
    [{ type: 'identify', ...user, messageId: {} }, 'id_not_string'],
    [{ type: 'identify', ...user, messageId: 'x'.repeat(101) }, 'id_too_long'],
    [{ type: 'identify', userId: 'x'.repeat(1_001) }, 'id_too_long'],
    [{ type: 'identify', userId: 'é'.repeat(501) }, 'id_too_long'],
    [{ type: 'track', ...user, event: 'e', anonymousId: 'x'.repeat(1_001) }, 'id_too_long'],
    [{ type: 'group', ...user, groupId: 'x'.repeat(1_001) }, 'id_too_long'],
    [{ type: 'alias', ...user, previousId: 'x'.repeat(1_001) }, 'id_too_long'],
    [{ type: 'identify', ...user, traits: ['t'] }, 'traits_not_object'],
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
  for (const [input, code] of cases) t.equal(codeOf(input), code, JSON.stringify(input).slice(0, 100));
  t.equal(codeOf({ type: 'identify', ...user, messageId: 'x'.repeat(100) }), null);
  t.equal(codeOf({ type: 'identify', userId: 'é'.repeat(500) }), null);
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

t.test('refuses nesting so deep that receivers would fail', async (t) => {
  const nested = (levels: number) => JSON.parse(`${'['.repeat(levels)}${']'.repeat(levels)}`);
  const item = (levels: number) => ({ type: 'track', userId: 'u', event: 'e', properties: { a: nested(levels) } });
  t.equal(codeOf(item(498)), null);
  t.equal(codeOf(item(499)), 'too_deep');
  t.equal(codeOf(item(200_000)), 'too_deep');
  t.equal(codeOf({ type: 'alias', userId: 'u', previousId: 'p', junk: nested(200_000) }), 'too_deep');
});

t.test('puts U+FFFD in place of halves of surrogate pairs, wherever they stand', (t) => {
  const given = String.raw`{"type":"track","userId":"u\ud83d","event":"\ude00e","messageId":"m\udfff","properties":{"\ud83d":1,"\ud83e":2,"whole":"\ud83d\ude00","text":"\\ud83d","backslash":"\\\ud800","deep":[{"a":"x\uDBFFy"}]}}`;
  const { body, userId, event, messageId } = accepted(JSON.parse(given));
  t.same([userId, event, messageId], ['u\ufffd', '\ufffde', 'm\ufffd']);
  t.match(JSON.parse(body), {
    userId,
    event,
    messageId,
    properties: { '\ufffd': 2, whole: '😀', text: '\\ud83d', backslash: '\\\ufffd', deep: [{ a: 'x\ufffdy' }] },
  });
  t.ok(body.isWellFormed());
  t.notMatch(body, /[^\\]\\ud/);
  t.equal(JSON.stringify(JSON.parse(body)), body, 'receivers may verify the text that they write themselves');
  t.end();
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
});

t.test('reads other time formats that have one meaning', async (t) => {
  const cases: [value: unknown, time: string][] = [
    ['Tue, 14 Nov 2023 22:13:20 GMT', '2023-11-14T22:13:20.000Z'],
    ['14 Nov 2023 22:13:20 +0000', '2023-11-14T22:13:20.000Z'],
    ['Tue, 14 Nov 2023 17:13:20 EST', '2023-11-14T22:13:20.000Z'],
    ['20231114T221320Z', '2023-11-14T22:13:20.000Z'],
    ['20231114T231320.123+0100', '2023-11-14T22:13:20.123Z'],
    ['20231114', '2023-11-14T00:00:00.000Z'],
    ['2023-W46-2', '2023-11-14T00:00:00.000Z'],
    ['2023-318T22:13:20Z', '2023-11-14T22:13:20.000Z'],
    [1_700_000_000, '2023-11-14T22:13:20.000Z'],
    [1_700_000_000.5, '2023-11-14T22:13:20.500Z'],
    [1_700_000_000_000, '2023-11-14T22:13:20.000Z'],
    ['1700000000', '2023-11-14T22:13:20.000Z'],
    ['1700000000.25', '2023-11-14T22:13:20.250Z'],
    ['1700000000000', '2023-11-14T22:13:20.000Z'],
    ['2016-12-31T23:59:60Z', '2017-01-01T00:00:00.000Z'],
    ['2017-01-01T00:59:60.5+01:00', '2017-01-01T00:00:00.500Z'],
    ['20150630T235960Z', '2015-07-01T00:00:00.000Z'],
    ['2015-2-02T3:04:05Z', '2015-02-02T03:04:05.000Z'],
    ['2023-11-14 22:13:20 UTC', '2023-11-14T22:13:20.000Z'],
    ['2023-11-14 22:13:20 +0000', '2023-11-14T22:13:20.000Z'],
    ['Tue Nov 14 2023 23:13:20 GMT+0100 (Central European Standard Time)', '2023-11-14T22:13:20.000Z'],
    ['2024-02-29', '2024-02-29T00:00:00.000Z'],
  ];
  for (const [value, time] of cases) {
    const at = instant(value);
    t.equal(at === null ? null : new Date(at).toISOString(), time, String(value));
  }
});

t.test('refuses times with two meanings, or none', async (t) => {
  for (const nonsense of [
    ...['', 'yesterday', '1', '2026-13-01', '2026-11-21T25:00:00Z', '+275760-09-13T00:00:00Z', 'Nov 21 2026'],
    ...['2023-02-30', '2023-02-30T00:00:00.000Z', '2023-02-29T00:00:00+01:00', '2023-2-30', '20230230T000000Z'],
    ...['30 Feb 2023 00:00:00 GMT', 'Mon, 14 Nov 2023 22:13:20 GMT', '11/12/2023', '2023', '2023-11'],
    ...[
      '2016-12-31T12:30:60Z',
      '2016-12-30T23:59:60Z',
      '20231114221320',
      '170000000000000000000',
      `2023-11-14${' '.repeat(99)}`,
    ],
    ...[null, undefined, {}, [], true, Number.NaN, Number.POSITIVE_INFINITY, 8.64e15, -8.64e15, 0, 20_231_114, 5e10],
  ]) {
    t.equal(instant(nonsense), null, String(nonsense));
  }
});

t.test('keeps a time that is unreadable, or in another format, as originalTimestamp', async (t) => {
  const fields: string[] = [];
  const times = (input: object, given: Partial<MessageEnvelope> = {}) => {
    const read = bodyOf(
      { type: 'track', event: 'e', userId: 'u', ...input },
      { onUnreadable: (field) => fields.push(field), ...given },
    );
    return [read.timestamp, read.originalTimestamp];
  };
  t.strictSame(times({ timestamp: '2023-02-30' }), [now, '2023-02-30']);
  t.strictSame(times({ timestamp: { date: 'today' } }), [now, { date: 'today' }]);
  t.strictSame(fields.splice(0), ['timestamp', 'timestamp']);
  t.strictSame(times({ timestamp: 1_700_000_000 }), ['2023-11-14T22:13:20.000Z', 1_700_000_000]);
  t.strictSame(times({ timestamp: '2023-11-14T22:13:20+0000' }), ['2023-11-14T22:13:20.000Z', undefined]);
  t.strictSame(fields, []);
  t.strictSame(times({ timestamp: now, sentAt: 'later' }), [now, undefined]);
  t.strictSame(fields, ['sentAt']);
  for (const sentAt of ['0001-01-01T00:00:00Z', '1970-01-01T00:00:00Z'])
    t.strictSame(times({ timestamp: now, sentAt }), [now, undefined], 'a clock that was never set');
  const unset = { timestamp: '1970-01-01T00:01:00Z', sentAt: '1970-01-01T00:02:00Z' };
  t.strictSame(times(unset), ['2026-11-21T02:59:00.000Z', unset.timestamp], 'the same clock gave both');
});

t.test('corrects the timestamp by the time between sending and arrival', async (t) => {
  const track = { type: 'track', event: 'e', userId: 'u' };
  const timestamp = '2026-11-21T01:59:00+0000';
  const times = (input: object, given: Partial<MessageEnvelope> = {}) => {
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
  t.strictSame(times({ timestamp: 'nonsense' }), [now, 'nonsense'], 'or not understood');
  t.strictSame(times({ originalTimestamp: timestamp, sentAt: timestamp }), [now, timestamp], 'RudderStack');
  t.strictSame(
    times({ timestamp: '0001-01-01T00:00:00Z', sentAt: '9999-01-01T00:00:00Z' }),
    ['0001-01-01T00:00:00.000Z', undefined],
    'a correction beyond the calendar is none',
  );
});
