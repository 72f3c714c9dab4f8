import { readFile } from 'node:fs/promises';
import fc from 'fast-check';
import t from 'tap';
import { Client, ClientError, type Loss } from '../../src/client/index.ts';
import { version } from '../../src/client/version.ts';
import { ManualClock } from './manual-clock.ts';
import { service } from './service.ts';

const now = '2026-01-02T03:04:05.678Z';

t.test('sends every kind with its fields, a messageId and a timestamp', async (t) => {
  const { endpoint, requests } = await service(t);
  const client = new Client('KEY', { endpoint, clock: new ManualClock() });
  client.identify({ userId: 'u1', traits: { plan: 'pro' } });
  client.track({ userId: 'u1', event: 'Signed Up', properties: { total: 1.5 } });
  client.page({ anonymousId: 'a1', category: 'Docs', name: 'Start', properties: { url: 'http://x/' } });
  client.screen({ userId: 'u1', name: 'Main' });
  client.group({ userId: 'u1', groupId: 'g1', traits: { name: 'Initech' } });
  client.alias({ userId: 'u1', previousId: 'a1' });
  t.same(await client.close(), { sent: 6, failed: 0, dropped: 0 });
  t.same(requests[0]?.batch, [
    { type: 'identify', messageId: 'id-0', timestamp: now, userId: 'u1', traits: { plan: 'pro' } },
    {
      type: 'track',
      messageId: 'id-1',
      timestamp: now,
      userId: 'u1',
      event: 'Signed Up',
      properties: { total: 1.5 },
    },
    {
      type: 'page',
      messageId: 'id-2',
      timestamp: now,
      anonymousId: 'a1',
      name: 'Start',
      category: 'Docs',
      properties: { url: 'http://x/' },
    },
    { type: 'screen', messageId: 'id-3', timestamp: now, userId: 'u1', name: 'Main' },
    { type: 'group', messageId: 'id-4', timestamp: now, userId: 'u1', groupId: 'g1', traits: { name: 'Initech' } },
    { type: 'alias', messageId: 'id-5', timestamp: now, userId: 'u1', previousId: 'a1' },
  ]);
});

t.test('sends the write key, content type, library and time with a request', async (t) => {
  const { endpoint, requests } = await service(t);
  const client = new Client('KEY', { endpoint, clock: new ManualClock() });
  client.track({ userId: 'u', event: 'e' });
  await client.close();
  const [request] = requests;
  t.equal(request?.path, '/v1/batch');
  t.equal(request?.headers.authorization, `Basic ${Buffer.from('KEY:').toString('base64')}`);
  t.equal(request?.headers['content-type'], 'application/json');
  t.equal(request?.headers['content-length'], String(request?.bytes));
  t.equal(request?.headers['user-agent'], `rollcall-client/${version}`);
  t.equal(request?.body['sentAt'], now);
  t.same(request?.body['context'], { library: { name: '@rollcall/client', version } });
});

t.test('sends the version of the package', async (t) => {
  const path = new URL('../../src/client/package.json', import.meta.url);
  t.equal(JSON.parse(await readFile(path, 'utf8')).version, version);
});

t.test('sends traits of a page and of a screen as properties, which win', async (t) => {
  const { endpoint, requests } = await service(t);
  const client = new Client('KEY', { endpoint });
  client.page({ userId: 'u', traits: { url: '/a', title: 'A' }, properties: { title: 'B' } });
  client.screen({ userId: 'u', traits: { depth: 2 } });
  await client.close();
  t.same(
    requests[0]?.batch.map(({ properties, traits }) => ({ properties, traits })),
    [
      { properties: { url: '/a', title: 'B' }, traits: undefined },
      { properties: { depth: 2 }, traits: undefined },
    ],
  );
});

t.test('keeps a given timestamp, messageId, context and integrations on any call', async (t) => {
  const { endpoint, requests } = await service(t);
  const client = new Client('KEY', { endpoint });
  const given = { messageId: 'mine', context: { ip: '10.0.0.1' }, integrations: { All: false, Webhooks: true } };
  const timestamp = '2015-07-10T23:00:00+0000';
  client.identify({ userId: 'u', ...given, timestamp });
  client.track({ userId: 'u', event: 'e', ...given, timestamp });
  client.page({ userId: 'u', ...given, timestamp });
  client.screen({ userId: 'u', ...given, timestamp });
  client.group({ userId: 'u', groupId: 'g', ...given, timestamp });
  client.alias({ userId: 'u', previousId: 'p', ...given, timestamp: new Date(0) });
  await client.close();
  const batch = requests[0]?.batch ?? [];
  t.equal(batch.length, 6);
  for (const message of batch) t.match(message, given);
  t.same(
    batch.map((m) => m['timestamp']),
    [...Array(5).fill(timestamp), '1970-01-01T00:00:00.000Z'],
  );
});

t.test('treats null as absent', async (t) => {
  const { endpoint, requests } = await service(t);
  const client = new Client('KEY', { endpoint, clock: new ManualClock() });
  const nothing = { messageId: null, timestamp: null, name: null, category: null, context: null, integrations: null };
  client.page({ userId: 'u', anonymousId: null, properties: null, traits: null, ...nothing } as never);
  await client.close();
  t.same(requests[0]?.batch, [{ type: 'page', messageId: 'id-0', timestamp: now, userId: 'u' }]);
});

t.test('sends a message as it was at the call, whatever happens to its objects later', async (t) => {
  const { endpoint, requests } = await service(t);
  const client = new Client('KEY', { endpoint });
  const properties = { step: 1 };
  client.track({ userId: 'u', event: 'e', properties });
  properties.step = 2;
  await client.close();
  t.same(requests[0]?.batch[0]?.['properties'], { step: 1 });
});

t.test('delivers any JSON object as JSON would write it', async (t) => {
  const { endpoint, requests } = await service(t);
  await fc.assert(
    fc.asyncProperty(fc.dictionary(fc.string(), fc.jsonValue()), async (properties) => {
      const client = new Client('KEY', { endpoint });
      client.track({ userId: 'u', event: 'e', properties });
      await client.close();
      const expected = JSON.parse(JSON.stringify(properties));
      return t.same(requests.at(-1)?.batch[0]?.['properties'], expected);
    }),
    { numRuns: 50 },
  );
});

t.test('throws at the call and names the field that is missing or wrong', async (t) => {
  const client = new Client('KEY', { endpoint: 'http://127.0.0.1:1' });
  // Callers without types may pass anything.
  const call = (kind: 'identify' | 'track' | 'page' | 'screen' | 'group' | 'alias', message: unknown) => () =>
    client[kind](message as never);
  const cyclic: Record<string, unknown> = {};
  cyclic['self'] = cyclic;
  const cases: [() => void, string, string | undefined][] = [
    [call('identify', {}), 'no_user_anon_id', 'userId'],
    [call('identify', { userId: '', anonymousId: null }), 'no_user_anon_id', 'userId'],
    [call('track', { userId: 'u' }), 'event_not_defined', 'event'],
    [call('track', { userId: 'u', event: 5 }), 'event_not_string', 'event'],
    [call('track', { event: 'e' }), 'no_user_anon_id', 'userId'],
    [call('page', { name: 'n' }), 'no_user_anon_id', 'userId'],
    [call('screen', { name: 'n' }), 'no_user_anon_id', 'userId'],
    [call('screen', { userId: 'u', name: 1 }), 'name_not_string', 'name'],
    [call('group', { userId: 'u' }), 'no_group_id', 'groupId'],
    [call('group', { groupId: 'g' }), 'no_user_anon_id', 'userId'],
    [call('alias', { userId: 'u' }), 'no_previous_id', 'previousId'],
    [call('alias', { previousId: 'p' }), 'no_user_id', 'userId'],
    [call('identify', { userId: 7 }), 'id_not_string', 'userId'],
    [call('identify', { userId: 'u', anonymousId: 7 }), 'id_not_string', 'anonymousId'],
    [call('identify', { userId: 'u', messageId: 'x'.repeat(100) }), 'invalid_message', 'messageId'],
    [call('identify', { userId: 'u', messageId: 1 }), 'id_not_string', 'messageId'],
    [call('identify', { userId: 'u', traits: [] }), 'traits_not_object', 'traits'],
    [call('track', { userId: 'u', event: 'e', properties: 'p' }), 'properties_not_object', 'properties'],
    [call('track', { userId: 'u', event: 'e', context: 1 }), 'context_not_object', 'context'],
    [call('track', { userId: 'u', event: 'e', integrations: [] }), 'integrations_not_object', 'integrations'],
    [call('track', { userId: 'u', event: 'e', timestamp: 'soon' }), 'invalid_timestamp', 'timestamp'],
    [call('track', { userId: 'u', event: 'e', timestamp: new Date(Number.NaN) }), 'invalid_timestamp', 'timestamp'],
    [call('track', { userId: 'u', event: 'e', properties: { n: 1n } }), 'invalid_message', undefined],
    [call('track', { userId: 'u', event: 'e', properties: cyclic }), 'invalid_message', undefined],
    [call('track', undefined), 'invalid_message', undefined],
  ];
  for (const [attempt, code, field] of cases) {
    try {
      attempt();
      t.fail(`${code} for ${field} was not thrown`);
    } catch (error) {
      if (!(error instanceof ClientError)) throw error;
      t.match({ code: error.code, field: error.field }, { code, field });
      if (field) t.match(error.message, field);
    }
  }
  t.equal(client.queued, 0);
  t.same(await client.close(), { sent: 0, failed: 0, dropped: 0 });
});

t.test('sends a message of 32,000 bytes and refuses one of 32,001, whatever its characters', async (t) => {
  const { endpoint, requests } = await service(t);
  for (const character of ['i', 'x', 'é', '€', '😀', '"']) {
    const client = new Client('KEY', { endpoint });
    const message = (filler: string) => ({
      userId: 'u',
      event: 'e',
      messageId: 'm',
      timestamp: now,
      context: { filler },
    });
    const bytes = (filler: string) => Buffer.byteLength(JSON.stringify({ type: 'track', ...message(filler) }));
    const each = bytes(character) - bytes('');
    const room = 32_000 - bytes('');
    const fits = character.repeat(Math.floor(room / each)) + 'a'.repeat(room % each);
    t.equal(bytes(fits), 32_000);
    t.equal(client.track(message(fits)), true);
    t.throws(() => client.track(message(`${fits}a`)), { code: 'too_large', message: /32001 bytes/ });
    t.match(await client.close(), { sent: 1 });
    t.same(requests.at(-1)?.batch[0]?.['context'], { filler: fits });
  }
});

t.test("drops and reports invalid messages with invalid: 'drop', and sends the others", async (t) => {
  const { endpoint, requests } = await service(t);
  const losses: Loss[] = [];
  const client = new Client('KEY', { endpoint, invalid: 'drop', onLoss: (loss) => void losses.push(loss) });
  const event = 'x'.repeat(40_000);
  t.equal(client.track({ userId: 'u', event }), false);
  t.equal(client.track({ event: 'nobody' } as never), false);
  t.equal(client.identify(null as never), false);
  t.equal(client.track({ userId: 'u', event: 'right' }), true);
  t.same(await client.close(), { sent: 1, failed: 0, dropped: 3 });
  t.match(losses, [
    { outcome: 'dropped', reason: 'invalid', code: 'too_large', messages: [{ type: 'track', userId: 'u', event }] },
    { reason: 'invalid', code: 'no_user_anon_id', messages: [{ type: 'track', event: 'nobody' }] },
    { reason: 'invalid', code: 'invalid_message', messages: [{ type: 'identify' }] },
  ]);
  t.equal(requests.length, 1);
});

t.test('refuses invalid options by name', (t) => {
  t.throws(() => new Client(''), { code: 'bad_configuration', field: 'writeKey' });
  for (const writeKey of ['a:secret', 'secret\n', 'secret\0', 'secret\ud800']) {
    const error = { code: 'bad_configuration', field: 'writeKey', message: /^(?!.*secret).*colon/s };
    t.throws(() => new Client(writeKey), error);
  }
  t.throws(() => new Client('k', { endpoint: 'ftp://x' }), { code: 'bad_configuration', field: 'endpoint' });
  t.throws(() => new Client('k', { endpoint: 'nonsense' }), { code: 'bad_configuration', field: 'endpoint' });
  for (const options of ['http://127.0.0.1:1', null] as never[]) {
    t.throws(() => new Client('k', options), { code: 'bad_configuration', field: 'options' });
  }
  for (const name of ['flushat', 'host']) {
    const error = { code: 'bad_configuration', field: name, message: / is not an option: give endpoint, / };
    t.throws(() => new Client('k', { [name]: 1 }), error);
  }
  t.throws(() => new Client('k', { invalid: 'report' as never }), { code: 'bad_configuration', field: 'invalid' });
  for (const name of ['spool', 'onLoss', 'onRetry', 'fetch']) {
    t.throws(() => new Client('k', { [name]: 1 }), { code: 'bad_configuration', field: name });
  }
  for (const name of ['flushAt', 'flushAfter', 'maxQueueCount', 'maxQueueBytes', 'requestTimeout'] as const) {
    for (const value of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
      t.throws(() => new Client('k', { [name]: value }), { code: 'bad_configuration', field: name });
    }
  }
  t.end();
});

t.test('accepts an endpoint with a path or as the whole URL, and falls back to ROLLCALL_ENDPOINT', async (t) => {
  const { endpoint, requests } = await service(t);
  for (const [given, path] of [
    [`${endpoint}/`, '/v1/batch'],
    [`${endpoint}/in/`, '/in/v1/batch'],
    [`${endpoint}/v1/batch`, '/v1/batch'],
  ] as const) {
    const client = new Client('KEY', { endpoint: given });
    client.track({ userId: 'u', event: 'e' });
    await client.close();
    t.equal(requests.at(-1)?.path, path);
  }
  t.teardown(() => delete process.env['ROLLCALL_ENDPOINT']);
  process.env['ROLLCALL_ENDPOINT'] = endpoint;
  const client = new Client('KEY');
  client.track({ userId: 'u', event: 'e' });
  t.match(await client.close(), { sent: 1 });
});

t.test('sends a Map as an object and a Set as an array, wherever they are', async (t) => {
  const { endpoint, requests } = await service(t);
  const client = new Client('KEY', { endpoint });
  const basket = new Map<string | number, unknown>([
    ['a-1', 2],
    [7, new Map([['__proto__', new Set(['x', 'y'])]])],
  ]);
  client.track({ userId: 'u', event: 'e', properties: { basket, none: new Map(), nothing: {} } });
  client.identify({ userId: 'u', traits: new Map([['plan', 'pro']]) as never });
  client.page({ userId: 'u', traits: new Map([['url', '/']]) as never });
  t.throws(() => client.track({ userId: 'u', event: 'e', properties: { m: new Map([[{}, 1]]) } }), {
    code: 'invalid_message',
    message: /object cannot be a key/,
  });
  t.throws(() => client.identify({ userId: 'u', traits: new Set() as never }), { code: 'traits_not_object' });
  await client.close();
  const [track, identify, page] = requests[0]?.batch ?? [];
  t.equal(
    JSON.stringify(track?.['properties']),
    '{"basket":{"7":{"__proto__":["x","y"]},"a-1":2},"none":{},"nothing":{}}',
  );
  t.same(identify?.['traits'], { plan: 'pro' });
  t.same(page?.['properties'], { url: '/' });
});
