import { gzipSync } from 'node:zlib';
import t from 'tap';
import type { IpMode } from '../../src/kernel/ip.ts';
import { authorization, basic, SHOP, startService, track } from './service.ts';

const origin = 'https://shop.example';
const bodyOf = (message: { readonly body: string } | undefined) => JSON.parse(message?.body ?? '{}');
const data = (call: object) => Buffer.from(JSON.stringify(call)).toString('base64');

t.test('makes analytics-next send here, and load and report nothing else', async (t) => {
  const { app } = startService(t);
  const ask = (key: string, headers = {}) =>
    app.inject({
      url: `/v1/projects/${key}/settings`,
      headers: { host: 'events.shop.example:8080', origin, ...headers },
    });
  const answer = await ask('WK_shop');
  t.equal(answer.statusCode, 200);
  t.match(answer.headers, { 'access-control-allow-origin': origin, 'content-type': /^application\/json/ });
  t.match(answer.json(), {
    integrations: { 'Segment.io': { apiKey: 'WK_shop', apiHost: 'events.shop.example:8080/v1', protocol: 'http' } },
    remotePlugins: [],
    metrics: { sampleRate: 0 },
  });
  t.same(Object.keys(answer.json().integrations), ['Segment.io']);
  const behindTls = await ask('WK_shop', { 'x-forwarded-proto': 'https, http' });
  t.equal(behindTls.json().integrations['Segment.io'].protocol, 'https');
  const unknown = await ask('WK_other');
  t.equal(unknown.statusCode, 401);
  t.match(unknown.json(), { code: 'unknown_source' });
  t.equal(unknown.headers['access-control-allow-origin'], origin, 'so that pages can read why');
  t.equal((await ask('WK_closed')).json().code, 'source_disabled');
});

t.test("lets Rudder's library send, however it names the key", async (t) => {
  const { app } = startService(t);
  const asked = [
    { url: '/sourceConfig/?p=cdn&v=3.0.0&writeKey=WK_shop', headers: {} },
    { url: '/sourceConfig', headers: { authorization } },
    { url: '/sourceConfig?writeKey=other', headers: { authorization: basic('WK_shop') } },
  ];
  for (const request of asked) {
    const answer = await app.inject({ ...request, headers: { ...request.headers, origin } });
    t.equal(answer.statusCode, 200, request.url);
    t.match(answer.headers, { 'access-control-allow-origin': origin, 'access-control-allow-credentials': 'true' });
    t.match(answer.json(), {
      source: {
        id: 'shop',
        enabled: true,
        config: { statsCollection: { errors: { enabled: false } } },
        destinations: [],
      },
    });
  }
  t.equal((await app.inject({ url: '/sourceConfig/?writeKey=WK_closed' })).json().source.enabled, false);
  for (const query of ['', '?writeKey=WK_shop&writeKey=WK_shop']) {
    t.equal((await app.inject({ url: `/sourceConfig/${query}` })).json().code, 'unknown_source', query);
  }
});

t.test('lets pages of every origin send, with credentials too, but closes other routes to them', async (t) => {
  const { app, accepted } = startService(t);
  app.get('/api/secret', () => ({}));
  const asking = { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'content-type' };
  for (const url of ['/v1/t', '/v1/batch', '/beacon/v1/batch']) {
    const preflight = await app.inject({ method: 'OPTIONS', url, headers: asking });
    t.equal(preflight.statusCode, 204, url);
    t.match(preflight.headers, {
      'access-control-allow-origin': origin,
      'access-control-allow-credentials': 'true',
      'access-control-allow-methods': 'POST',
      'access-control-allow-headers': 'content-type',
      vary: /Origin/,
    });
    const payload = url.endsWith('batch') ? { batch: [track], writeKey: 'WK_shop' } : { ...track, writeKey: 'WK_shop' };
    const answer = await app.inject({ method: 'POST', url, payload, headers: { origin } });
    t.match(answer.headers, { 'access-control-allow-origin': origin, 'access-control-allow-credentials': 'true' });
    t.equal(answer.body, '{"success":true}');
  }
  t.equal(accepted.length, 3);
  const asked = await app.inject({ method: 'OPTIONS', url: '/v1/track' });
  t.equal(asked.statusCode, 204, 'whoever else asks, a monitor for instance, is answered too');
  const refusals: [status: number, url: string, headers?: object, payload?: object][] = [
    [401, '/v1/t'],
    [401, '/v1/t?writeKey=nobody'],
    [403, '/beacon/v1/track?writeKey=WK_closed'],
    [401, '/v1/t', { authorization: basic('nobody:') }],
    [400, '/v1/t', { authorization }, { ...track, filler: 'x'.repeat(40_000) }],
    [415, '/v1/t', { authorization, 'content-encoding': 'zstd' }],
  ];
  for (const [status, url, headers, payload = track] of refusals) {
    const refused = await app.inject({ method: 'POST', url, payload, headers: { origin, ...headers } });
    t.equal(refused.statusCode, status, url);
    t.equal(refused.headers['access-control-allow-origin'], origin, 'so that pages can read why');
  }
  for (const url of ['/api/secret', '/regulations', '/metrics']) {
    const preflight = await app.inject({ method: 'OPTIONS', url, headers: asking });
    t.equal(preflight.statusCode, 404, url);
    t.equal(preflight.headers['access-control-allow-origin'], undefined);
  }
});

t.test('accepts a beacon with its key in the URL, below either path', async (t) => {
  const { app, accepted } = startService(t);
  const json = JSON.stringify({ batch: [{ ...track, userId: 'ü' }] });
  for (const url of [
    '/beacon/v1/batch?writeKey=WK_shop',
    '/v1/batch?writeKey=WK_shop',
    '/v1/b/?x=1&writeKey=WK_shop',
  ]) {
    for (const [type, payload] of [
      ['text/plain;charset=UTF-8', json],
      ['application/json', json],
      ['text/plain', gzipSync(json)],
    ] as const) {
      const headers = {
        origin,
        'content-type': type,
        ...(typeof payload !== 'string' && { 'content-encoding': 'gzip' }),
      };
      const answer = await app.inject({ method: 'POST', url, payload, headers });
      t.equal(answer.body, '{"success":true}', `${url} ${type}`);
      t.match(accepted.pop(), { source: 'shop', messages: [{ userId: 'ü' }] });
    }
  }
  const single = await app.inject({ method: 'POST', url: '/beacon/v1/track?writeKey=WK_shop', payload: track });
  t.equal(single.statusCode, 200);
  const wrong = await app.inject({ method: 'POST', url: '/beacon/v1/batch?writeKey=a&writeKey=b', payload: json });
  t.equal(wrong.statusCode, 401);
});

t.test('accepts one message by pixel and always answers with an image', async (t) => {
  const { app, accepted } = startService(t);
  const call = { writeKey: 'WK_shop', userId: 'u>>>???', event: 'Email Opened', properties: { campaign: 'ä' } };
  const url64 = data(call).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
  t.match(data(call), /[+/]/, 'the alphabets differ');
  for (const url of [
    `/v1/pixel/track?data=${encodeURIComponent(data(call))}`,
    `/v1/pixel/track.gif?data=${data(call)}`,
    `/v1/pixel/track?data=${url64}`,
    `/v1/pixel/track?writeKey=WK_shop&data=${url64}`,
  ]) {
    const answer = await app.inject({ url });
    t.equal(answer.statusCode, 200, url);
    t.match(answer.headers, { 'content-type': 'image/gif', 'cache-control': 'no-store' });
    t.equal(answer.rawPayload.subarray(0, 6).toString(), 'GIF89a');
    const [message] = accepted.pop()?.messages ?? [];
    t.match(bodyOf(message), {
      type: 'track',
      userId: 'u>>>???',
      event: 'Email Opened',
      properties: { campaign: 'ä' },
    });
  }
  for (const type of ['identify', 'page', 'screen', 'group', 'alias']) {
    const identified = data({ writeKey: 'WK_shop', userId: 'u', groupId: 'g', previousId: 'p' });
    t.equal((await app.inject({ url: `/v1/pixel/${type}?data=${identified}` })).statusCode, 200, type);
    t.match(accepted.pop()?.messages, [{ type }]);
  }
  for (const [query, status] of [
    ['', 400],
    ['data=%%%', 400],
    [`data=${Buffer.from('[1]').toString('base64')}`, 401],
    [`writeKey=WK_shop&data=${Buffer.from('[1]').toString('base64')}`, 400],
    [`data=${data({ event: 'e', userId: 'u' })}`, 401],
    [`data=${data({ writeKey: 'WK_closed', event: 'e', userId: 'u' })}`, 403],
    [`data=${data({ writeKey: 'WK_shop', userId: 'u' })}`, 400],
    [`data=${data({ writeKey: { toString: 1 }, event: 'e', userId: 'u' })}`, 401],
  ] as const) {
    const answer = await app.inject({ url: `/v1/pixel/track?${query}` });
    t.equal(answer.statusCode, status, query);
    t.match(answer.headers, { 'content-type': 'image/gif' });
  }
  const looking = await app.inject({ method: 'HEAD', url: `/v1/pixel/track?data=${data(call)}` });
  t.equal(looking.statusCode, 404, 'nobody has seen what was asked for by HEAD');
  t.equal(accepted.length, 0);
});

t.test('answers a failed pixel with its status', async (t) => {
  const { app } = startService(t, {
    accept: async () => {
      throw new Error('the disk');
    },
  });
  const answer = await app.inject({
    url: `/v1/pixel/identify?data=${data({ writeKey: 'WK_shop', userId: 'u' })}`,
  });
  t.equal(answer.statusCode, 500);
  t.match(answer.headers, { 'content-type': 'image/gif' });
});

t.test('limits pixels by the rate of their source', async (t) => {
  const { app } = startService(t, { sources: () => [{ ...SHOP, ratePerSecond: 2 }] });
  const url = `/v1/pixel/identify?data=${data({ writeKey: 'WK_shop', userId: 'u' })}`;
  const statuses: number[] = [];
  for (let index = 0; index < 3; index += 1) statuses.push((await app.inject({ url })).statusCode);
  t.same(statuses, [200, 200, 429]);
});

t.test('treats the address of a browser as the user’s, but not that of a server', async (t) => {
  type Headers = Record<string, string>;
  const ipOf = async (
    mode: IpMode | undefined,
    url: string,
    headers: Headers,
    context = {},
    trustedProxies: string[] = [],
  ) => {
    const { app, accepted } = startService(t, {
      sources: () => [{ ...SHOP, ...(mode && { ip: mode }) }],
      trustedProxies,
    });
    const payload = { ...track, context, batch: [{ ...track, context }] };
    const query = url.includes('pixel') ? `?data=${data({ ...payload, writeKey: 'WK_shop' })}` : '?writeKey=WK_shop';
    const method = url.includes('pixel') ? 'GET' : 'POST';
    await app.inject({
      ...{ method, url: `${url}${query}`, headers, remoteAddress: '203.0.113.77' },
      ...(method === 'POST' && { payload }),
    });
    return bodyOf(accepted[0]?.messages[0]).context.ip;
  };
  const given = { ip: '198.51.100.9' };
  t.equal(await ipOf(undefined, '/v1/batch', {}), undefined, 'a server');
  t.equal(await ipOf(undefined, '/v1/batch', {}, given), '198.51.100.9', 'which may know the user’s');
  t.equal(await ipOf(undefined, '/v1/batch', { origin }), '203.0.113.77');
  t.equal(await ipOf('keep', '/v1/t', {}), '203.0.113.77');
  t.equal(await ipOf('keep', '/v1/t', { origin }, given), '198.51.100.9');
  t.equal(await ipOf('keep', '/beacon/v1/batch', {}), '203.0.113.77');
  t.equal(await ipOf('keep', '/v1/pixel/track', {}), '203.0.113.77');
  t.equal(await ipOf('anonymise', '/v1/track', { origin }), '203.0.113.0');
  t.equal(await ipOf('anonymise', '/v1/track', {}, given), '198.51.100.0');
  t.equal(await ipOf('drop', '/v1/track', { origin }, given), undefined);
  t.equal(await ipOf('drop', '/v1/track', {}, given), undefined);
  t.equal(
    await ipOf('keep', '/v1/t', { 'x-forwarded-for': '192.0.2.1' }),
    '203.0.113.77',
    'anyone can say that they forward',
  );
  const trustProxy = ['203.0.113.0/24'];
  t.equal(
    await ipOf('keep', '/v1/t', { 'x-forwarded-for': '192.0.2.1, 198.51.100.4' }, {}, trustProxy),
    '198.51.100.4',
  );
  for (const [from, ip] of [
    ['198.51.100.4:4711', '198.51.100.4'],
    ['[2001:db8::7]:4711', '2001:db8::7'],
    ['[2001:db8::7]', '2001:db8::7'],
    ['unknown', undefined],
  ] as const) {
    t.equal(await ipOf('keep', '/v1/t', { 'x-forwarded-for': from }, {}, trustProxy), ip, from);
  }
});
