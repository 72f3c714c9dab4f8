import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import type { InjectOptions } from 'fastify';
import t from 'tap';
import { authorization, basic, startService, track } from './service.ts';

t.test('answers on every path of every client, with and without a final slash', async (t) => {
  const { app, accepted } = startService(t);
  const calls = {
    ...{ identify: 'identify', track: 'track', page: 'page', screen: 'screen', group: 'group', alias: 'alias' },
    ...{ i: 'identify', t: 'track', p: 'page', s: 'screen', g: 'group', a: 'alias' },
  };
  const payload = { event: 'e', userId: 'u', groupId: 'g', previousId: 'p' };
  for (const [path, type] of Object.entries(calls)) {
    for (const url of [`/v1/${path}`, `/v1/${path}/`]) {
      const answer = await app.inject({ method: 'POST', url, payload, headers: { authorization } });
      t.equal(answer.statusCode, 200, url);
      t.equal(answer.body, '{"success":true}');
      t.match(answer.headers['content-type'], 'application/json');
      t.match(accepted.pop(), { source: 'shop', messages: [{ type }] });
    }
  }
  for (const path of ['batch', 'import', 'b', 'batch/', 'import/', 'b/']) {
    const batch = { batch: [track, { ...track, type: 'page' }] };
    const answer = await app.inject({ method: 'POST', url: `/v1/${path}`, payload: batch, headers: { authorization } });
    t.equal(answer.body, '{"success":true}', path);
    t.match(accepted.pop(), { source: 'shop', messages: [{ type: 'track' }, { type: 'page' }] });
  }
});

t.test('finds a source by Basic credentials with or without the colon, or by the write key in the body', async (t) => {
  const { app, accepted } = startService(t);
  const send = (payload: object, headers = {}, url = '/v1/batch') =>
    app.inject({ method: 'POST', url, payload, headers });
  const batch = [track];
  t.equal((await send({ batch }, { authorization: basic('WK_shop:') })).statusCode, 200);
  t.equal((await send({ batch }, { authorization: basic('WK_shop') })).statusCode, 200);
  t.equal((await send({ batch }, { authorization: basic('WK_shop:ignored') })).statusCode, 200);
  t.equal((await send({ batch, writeKey: 'WK_shop' })).statusCode, 200);
  t.equal((await send({ batch, writeKey: 'WK_shop' }, { authorization: basic(':') })).statusCode, 200);
  t.equal((await send({ ...track, writeKey: 'WK_shop' }, {}, '/v1/t')).statusCode, 200);
  t.equal(accepted.length, 6);
  t.notMatch(accepted.at(-1)?.messages[0]?.body, 'WK_shop', 'the key goes no further');
});

t.test('keeps of an integer beyond 2^53 what JavaScript keeps of it', async (t) => {
  const { app, accepted } = startService(t);
  const payload = '{"event":"e","userId":"u","properties":{"n":9007199254740993,"text":"9007199254740993"}}';
  const headers = { authorization, 'content-type': 'application/json' };
  t.equal((await app.inject({ method: 'POST', url: '/v1/track', payload, headers })).statusCode, 200);
  t.match(accepted[0]?.messages[0]?.body, '{"n":9007199254740992,"text":"9007199254740993"}');
});

t.test('finds a field by its name, also if its letters are escaped', async (t) => {
  const { app, accepted } = startService(t);
  const spelled = (name: string) => [...name].map((letter) => `\\u00${letter.charCodeAt(0).toString(16)}`).join('');
  const escaped = (json: string) => json.replaceAll(/(?<=")[a-zA-Z]+(?=":)/g, spelled);
  const send = (url: string, payload: object) =>
    app.inject({ method: 'POST', url, payload: escaped(JSON.stringify(payload)) });
  const call = { ...track, messageId: 'm', writeKey: 'WK_shop', integrations: { all: true }, properties: { a: 1 } };
  t.equal((await send('/v1/track', call)).body, '{"success":true}');
  t.equal((await send('/v1/batch', { batch: [track], writeKey: 'WK_shop' })).body, '{"success":true}');
  t.match(accepted, [
    { source: 'shop', messages: [{ type: 'track', userId: 'u1', messageId: 'm', event: 'Bought' }] },
    { source: 'shop', messages: [{ type: 'track', userId: 'u1', event: 'Bought' }] },
  ]);
  t.match(JSON.parse(accepted[0]?.messages[0]?.body ?? ''), { userId: 'u1', properties: { a: 1 } });
  t.notMatch(accepted[0]?.messages[0]?.body, 'WK_shop', 'the key goes no further');
});

t.test('uses the last of several fields of one name, but all have to be JSON', async (t) => {
  const { app, accepted } = startService(t);
  const headers = { authorization: basic('WK_shop:'), 'content-type': 'application/json' };
  const send = async (payload: string) =>
    (await app.inject({ method: 'POST', url: '/v1/batch', headers, payload })).statusCode;
  const item = JSON.stringify(track);
  t.equal(await send(`{"batch":[{"userId":"nobody"}],"batch":[${item}]}`), 200);
  t.match(accepted, [{ messages: [{ userId: 'u1' }] }]);
  for (const bad of ['[{"a":tru}]', '[1 2]', '[nul]', '[{"a":1,}]'])
    for (const last of [`[${item}]`, 'null']) t.equal(await send(`{"batch":${bad},"batch":${last}}`), 400, bad);
  t.equal(await send(`{"batch":[tru],"batch":[],"batch":[${item}]}`), 400);
  t.equal(accepted.length, 1);
  const call = '{"userId":"u1","event":"Bought","batch":[1],"batch":[2]}';
  t.equal((await app.inject({ method: 'POST', url: '/v1/track', headers, payload: call })).statusCode, 200);
  t.notMatch(accepted[1]?.messages[0]?.body, 'batch', 'a list of that name is no part of a single call');
});

t.test('refuses unknown and disabled sources', async (t) => {
  const { app, accepted } = startService(t);
  const cases: [payload: object, authorization: string | undefined, status: number, code: string][] = [
    [{ batch: [track] }, undefined, 401, 'unknown_source'],
    [{ batch: [track] }, basic('WK_sho:'), 401, 'unknown_source'],
    [{ batch: [track], writeKey: 'WK_shop' }, basic('wrong:'), 401, 'unknown_source'],
    [{ batch: [track], writeKey: 7 }, undefined, 401, 'unknown_source'],
    [{ batch: [track], writeKey: '__proto__' }, undefined, 401, 'unknown_source'],
    [{ batch: [track] }, 'Bearer WK_shop', 401, 'unknown_source'],
    [{ batch: [track] }, 'Basic !!!', 401, 'unknown_source'],
    [{ batch: [track] }, basic('WK_closed:'), 403, 'source_disabled'],
    [{ batch: [track], writeKey: 'WK_closed' }, undefined, 403, 'source_disabled'],
  ];
  for (const [payload, given, status, code] of cases) {
    const headers = given === undefined ? {} : { authorization: given };
    const answer = await app.inject({ method: 'POST', url: '/v1/batch', payload, headers });
    t.equal(answer.statusCode, status, `${given} ${JSON.stringify(payload)}`);
    t.match(answer.json(), { code, message: String, error: String });
  }
  t.equal(accepted.length, 0);
});

t.test('uses a new list of sources from the next request on', async (t) => {
  let sources = [{ id: 'a', writeKey: 'one', enabled: true }];
  const { app } = startService(t, { sources: () => sources });
  const send = async (key: string) =>
    (await app.inject({ method: 'POST', url: '/v1/track', payload: track, headers: { authorization: basic(key) } }))
      .statusCode;
  t.equal(await send('one'), 200);
  sources = [{ id: 'a', writeKey: 'two', enabled: true }];
  t.equal(await send('one'), 401);
  t.equal(await send('two'), 200);
});

t.test('reads JSON under every content type and encoding that clients use', async (t) => {
  const { app, accepted } = startService(t);
  const json = JSON.stringify({ batch: [{ ...track, event: 'Käse 漢字 😀' }] });
  const encodings = {
    identity: (text: string) => Buffer.from(text),
    gzip: gzipSync,
    GZIP: gzipSync,
    'x-gzip': gzipSync,
    deflate: deflateSync,
    br: brotliCompressSync,
  };
  const types = ['application/json', 'application/json; charset=utf-8', 'text/plain', 'text/plain;charset=UTF-8'];
  for (const type of [...types, 'application/x-www-form-urlencoded', 'application/octet-stream', null]) {
    for (const [encoding, encode] of Object.entries(encodings)) {
      const headers = { authorization, 'content-encoding': encoding, ...(type && { 'content-type': type }) };
      const answer = await app.inject({ method: 'POST', url: '/v1/batch', payload: encode(json), headers });
      t.equal(answer.body, '{"success":true}', `${type}, ${encoding}`);
      t.equal(JSON.parse(accepted.pop()?.messages[0]?.body ?? '').event, 'Käse 漢字 😀');
    }
  }
});

t.test('explains in JSON what is wrong with a body', async (t) => {
  const { app, accepted } = startService(t);
  const cases: [payload: string | Buffer | undefined, headers: object, status: number, code: string][] = [
    ['', {}, 400, 'invalid_json'],
    [undefined, {}, 400, 'invalid_json'],
    ['{"batch":', {}, 400, 'invalid_json'],
    ['batch=1', { 'content-type': 'application/x-www-form-urlencoded' }, 400, 'invalid_json'],
    ['null', {}, 400, 'invalid_message'],
    ['[]', {}, 400, 'invalid_message'],
    ['"text"', {}, 400, 'invalid_message'],
    ['{}', {}, 400, 'empty_batch'],
    ['{"batch":[]}', {}, 400, 'empty_batch'],
    ['{"batch":{}}', {}, 400, 'empty_batch'],
    ['{"batch":[{}],"context":1}', {}, 400, 'context_not_object'],
    ['{"batch":[{}],"integrations":[1]}', {}, 400, 'integrations_not_object'],
    ['{}', { 'content-encoding': 'gzip' }, 400, 'invalid_json'],
    ['{}', { 'content-encoding': 'zstd' }, 415, 'unsupported_media_type'],
    ['{}', { 'content-encoding': '__proto__' }, 415, 'unsupported_media_type'],
    ['{}', { 'content-type': 'nonsense' }, 400, 'empty_batch'],
    ['{}', { 'content-type': '' }, 400, 'empty_batch'],
    ['{}', { 'content-type': 'json' }, 400, 'empty_batch'],
  ];
  for (const [payload, headers, status, code] of cases) {
    const request = { method: 'POST', url: '/v1/batch', headers: { authorization, ...headers } } as const;
    const answer = await app.inject(payload === undefined ? request : { ...request, payload });
    t.equal(answer.statusCode, status, `${payload} ${JSON.stringify(headers)}`);
    t.match(answer.json(), { code, message: String, error: String });
  }
  t.equal(accepted.length, 0);
});

t.test('forgives a byte order mark and characters that are not UTF-8', async (t) => {
  const { app, accepted } = startService(t);
  const bytes = Buffer.concat([
    Buffer.from('\uFEFF{"type":"track","userId":"u","event":"a'),
    Buffer.from([0xff, 0xc0]),
    Buffer.from('b"}'),
  ]);
  const answer = await app.inject({ method: 'POST', url: '/v1/track', payload: bytes, headers: { authorization } });
  t.equal(answer.statusCode, 200);
  t.equal(JSON.parse(accepted[0]?.messages[0]?.body ?? '').event, 'a\uFFFD\uFFFDb');
});

t.test('counts unreadable times by source and field', async (t) => {
  const seen: [string, string][] = [];
  const { app } = startService(t, { onUnreadable: (...unreadable) => seen.push(unreadable) });
  const send = (url: string, payload: object) =>
    app.inject({ method: 'POST', url, payload, headers: { authorization } });
  await send('/v1/batch', { batch: [track, { ...track, timestamp: '2023-02-30' }], sentAt: 'soon' });
  await send('/v1/track', { ...track, timestamp: 'x', sentAt: 'y' });
  await send('/v1/track', { ...track, timestamp: '2023-02-03', sentAt: 'y' });
  t.strictSame(seen, [
    ['shop', 'sentAt'],
    ['shop', 'timestamp'],
    ['shop', 'timestamp'],
    ['shop', 'sentAt'],
  ]);
});

t.test('accepts an empty list as a shared field, and a batch with an unreadable time', async (t) => {
  const { app, accepted } = startService(t);
  const payload = { batch: [track, { ...track, userId: 7 }], context: [], integrations: [], sentAt: 'now' };
  const answer = await app.inject({ method: 'POST', url: '/v1/batch', payload, headers: { authorization } });
  t.equal(answer.body, '{"success":true}');
  t.match(accepted[0]?.messages, [
    { userId: 'u1', integrations: null },
    { userId: '7', integrations: null },
  ]);
});

t.test('refuses a single call with its own code', async (t) => {
  const { app } = startService(t);
  const answer = await app.inject({
    method: 'POST',
    url: '/v1/track',
    payload: { userId: 'u' },
    headers: { authorization },
  });
  t.equal(answer.statusCode, 400);
  const { code, message, error } = answer.json();
  t.equal(code, 'event_not_defined');
  t.equal(error, message);
});

t.test('never redirects, and answers unknown paths in JSON', async (t) => {
  const { app } = startService(t);
  for (const [method, url] of [
    ['POST', '/v1'],
    ['POST', '/v1/delete'],
    ['GET', '/v1/delete'],
    ['POST', '/v1//batch'],
  ] as const) {
    const answer = await app.inject({ method, url });
    t.equal(answer.statusCode, 404, url);
    t.match(answer.json(), { code: 'not_found', message: String, error: String });
  }
});

t.test('answers 405 to other methods on paths for messages, before a body is read', async (t) => {
  const { app } = startService(t);
  for (const method of ['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE', 'TRACE', 'PROPFIND', 'LOCK']) {
    for (const url of ['/v1/batch', '/v1/track/', '/v1/b?x=1', '/v1/t', '/beacon/v1/batch']) {
      const options = { method, url, ...(method === 'PUT' && { payload: '{' }) };
      const answer = await app.inject(options as InjectOptions);
      t.equal(answer.statusCode, 405, `${method} ${url}`);
      t.equal(answer.headers['allow'], 'POST, OPTIONS');
      if (method !== 'HEAD') t.match(answer.json(), { code: 'method_not_allowed', message: String, error: String });
    }
  }
});

t.test('answers a URL that cannot be decoded like any other error', async (t) => {
  const { app } = startService(t);
  const answer = await app.inject({ method: 'POST', url: '/v1/%zz', payload: track, headers: { authorization } });
  t.equal(answer.statusCode, 400);
  t.match(answer.json(), { code: 'invalid_request', message: String, error: String });
});

t.test('accepts deflate with and without its header, and gzip with other data behind it', async (t) => {
  const { app, accepted } = startService(t);
  const bytes = Buffer.from(JSON.stringify(track));
  const bodies: [encoding: string, payload: Buffer][] = [
    ['deflate', deflateSync(bytes)],
    ['deflate', deflateRawSync(bytes)],
    ['gzip', Buffer.concat([gzipSync(bytes), Buffer.from('\r\n')])],
    ['gzip', Buffer.concat([gzipSync(bytes), Buffer.alloc(512)])],
  ];
  for (const [encoding, payload] of bodies) {
    const headers = { authorization, 'content-encoding': encoding };
    t.equal((await app.inject({ method: 'POST', url: '/v1/track', payload, headers })).statusCode, 200);
  }
  t.equal(accepted.length, bodies.length);
  const damaged = gzipSync(bytes);
  damaged.writeUInt32LE(1, damaged.length - 8);
  const headers = { authorization, 'content-encoding': 'gzip' };
  t.equal((await app.inject({ method: 'POST', url: '/v1/track', payload: damaged, headers })).statusCode, 400);
  const cut = gzipSync(bytes).subarray(0, -9);
  t.equal((await app.inject({ method: 'POST', url: '/v1/track', payload: cut, headers })).statusCode, 400);
});
