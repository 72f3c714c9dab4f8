import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { pino } from 'pino';
import t from 'tap';
import { inflated, inflatedAtOnce } from '../../src/collect/inflate.ts';
import { createHttpServer } from '../../src/http/server.ts';
import { authorization, NOW, startService, track } from './service.ts';

const CALL = 32_768;
const BATCH = 512_000;
const post = { method: 'POST', headers: { authorization } } as const;

/** JSON of exactly so many bytes. */
function sized(value: object, bytes: number): string {
  const room = bytes - Buffer.byteLength(JSON.stringify({ ...value, filler: '' }));
  return JSON.stringify({ ...value, filler: 'x'.repeat(room) });
}

t.test('accepts calls of 32 KB and batches of 500 KB, to the byte, also after inflating', async (t) => {
  const { app, accepted } = startService(t);
  for (const [url, value, limit] of [
    ['/v1/track', track, CALL],
    ['/v1/batch', { batch: [track] }, BATCH],
  ] as const) {
    const full = sized(value, limit);
    const over = sized(value, limit + 1);
    const gzip = { ...post.headers, 'content-encoding': 'gzip' };
    for (const [payload, headers, status] of [
      [full, post.headers, 200],
      [gzipSync(full), gzip, 200],
      [over, post.headers, 400],
      [gzipSync(over), gzip, 400],
    ] as const) {
      const answer = await app.inject({ method: 'POST', url, payload, headers });
      t.equal(answer.statusCode, status, `${url} ${payload.length}`);
      if (status === 400) t.match(answer.json(), { code: 'too_large', message: String, error: String });
    }
  }
  t.equal(accepted.length, 4);
});

t.test('inflates a bomb only up to the limit', async (t) => {
  const { app, accepted } = startService(t);
  const bomb = gzipSync(Buffer.alloc(200 * 1024 * 1024));
  t.ok(bomb.length < BATCH);
  const before = process.memoryUsage().arrayBuffers;
  const headers = { authorization, 'content-encoding': 'gzip' };
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => app.inject({ method: 'POST', url: '/v1/batch', payload: bomb, headers })),
  );
  const grown = process.memoryUsage().arrayBuffers - before;
  for (const answer of answers) t.match(answer.json(), { code: 'too_large' });
  t.ok(grown < 64 * 1024 * 1024, `held ${Math.round(grown / 1024 / 1024)} MB`);
  t.equal(accepted.length, 0);
});

t.test('releases the buffer that a small body was inflated into', async (t) => {
  const bytes = JSON.stringify(track);
  for (const [encoding, sent] of [
    ['gzip', gzipSync(bytes)],
    ['deflate', deflateSync(bytes)],
    ['br', brotliCompressSync(bytes)],
  ] as const) {
    for (const inflate of [() => inflatedAtOnce(sent, encoding, CALL), () => inflated(sent, encoding, BATCH)]) {
      const bodies = [await inflate(), await inflate(), await inflate()];
      for (const body of bodies) t.equal(String(body), bytes);
      const share = ([one, other, third]: typeof bodies) => [one, third].some((each) => each?.buffer === other?.buffer);
      t.ok(share(bodies), `${encoding}: small ones share their memory, as small buffers do`);
    }
  }
});

t.test('cuts off a body without a length at the limit', async (t) => {
  const service = startService(t);
  const outgoing = request(`${await service.url()}/v1/batch`, post);
  outgoing.on('error', () => {}); // The service hangs up on what is still being written.
  const chunk = Buffer.alloc(64 * 1024, ' ');
  const answered = once(outgoing, 'response');
  let sent = 0;
  let done = false;
  void answered.then(() => {
    done = true;
  });
  while (!done && sent < 64 * 1024 * 1024) {
    outgoing.write(chunk);
    sent += chunk.length;
    await new Promise((resolve) => setImmediate(resolve));
  }
  const [answer] = await answered;
  t.equal(answer.statusCode, 400);
  t.equal(answer.headers.connection, 'close');
  t.equal(JSON.parse(await text(answer)).code, 'too_large');
  t.ok(sent < 64 * 1024 * 1024, `answered after ${sent} bytes`);
  outgoing.destroy();
});

t.test('refuses a body that announces too much before it is sent', async (t) => {
  const service = startService(t);
  const outgoing = request(`${await service.url()}/v1/batch`, {
    method: 'POST',
    headers: { authorization, 'content-length': BATCH + 1 },
  });
  outgoing.flushHeaders();
  const [answer] = await once(outgoing, 'response');
  t.equal(JSON.parse(await text(answer)).code, 'too_large');
  outgoing.on('error', () => {}).destroy();
});

t.test('accepts a batch of 2,500 messages', async (t) => {
  const { app, accepted } = startService(t);
  const send = (count: number) =>
    app.inject({ ...post, url: '/v1/batch', payload: { batch: Array.from({ length: count }, () => track) } });
  t.equal((await send(2_500)).body, '{"success":true}');
  t.match((await send(2_501)).json(), { code: 'too_many_messages' });
  t.same(
    accepted.map(({ messages }) => messages.length),
    [2_500],
  );
});

t.test('checks an inflated body before it is read', async (t) => {
  const { app } = startService(t);
  const sent = gzipSync(JSON.stringify({ batch: [track] }));
  const changed = (offset: number) => {
    const bytes = Buffer.from(sent);
    bytes.writeUInt32LE(0, bytes.length - offset);
    return bytes;
  };
  for (const [name, payload, status] of [
    ['whole', sent, 200],
    ['says that it is empty', changed(4), 200],
    ['a wrong checksum', changed(8), 400],
    ['cut off', sent.subarray(0, -9), 400],
    ['followed by something else', Buffer.concat([sent, Buffer.from('\n')]), 200],
    ['too large', gzipSync(Buffer.alloc(BATCH + 1)), 400],
  ] as const) {
    const headers = { authorization, 'content-encoding': 'gzip' };
    const answer = await app.inject({ method: 'POST', url: '/v1/batch', payload, headers });
    t.equal(answer.statusCode, status, name);
  }
});

t.test('measures messages of a batch without the spaces between their parts', async (t) => {
  const { app, accepted } = startService(t);
  const full = JSON.parse(sized({ ...track, numbers: [1, 2, 3] } as object, CALL));
  const payload = JSON.stringify({ batch: [full, track] }, null, 8);
  t.ok(Buffer.byteLength(payload) > CALL + 100);
  t.equal((await app.inject({ ...post, url: '/v1/batch', payload })).body, '{"success":true}');
  t.equal(accepted[0]?.messages.length, 2);
});

t.test('rejects only the message over 32 KB of a batch', async (t) => {
  const { app, accepted } = startService(t);
  const [full, over] = [
    JSON.parse(sized(track, CALL)),
    JSON.parse(sized({ ...track, messageId: 'big' } as object, CALL + 1)),
  ];
  const hidden = { ...track, messageId: 'hidden', _metadata: { text: 'x'.repeat(CALL) } };
  const answer = await app.inject({ ...post, url: '/v1/batch', payload: { batch: [track, over, full, hidden] } });
  t.equal(answer.statusCode, 200);
  const rejected = [
    { index: 1, messageId: 'big', code: 'too_large' },
    { index: 3, messageId: 'hidden', code: 'too_large' },
  ];
  t.match(answer.json(), { success: true, rejected });
  t.equal(accepted[0]?.messages.length, 2);
});

t.test('limits how much shared fields multiply a batch', async (t) => {
  const { app, accepted } = startService(t);
  const send = (kilobytes: number) => {
    const context = { filler: 'x'.repeat(kilobytes * 1024) };
    return app.inject({
      ...post,
      url: '/v1/batch',
      payload: { context, batch: Array.from({ length: 1_000 }, () => track) },
    });
  };
  t.equal((await send(1)).statusCode, 200);
  t.match((await send(100)).json(), { code: 'too_large' });
  t.equal(accepted.length, 1);
});

t.test('survives deep nesting and many keys', async (t) => {
  const { app, accepted } = startService(t);
  const deep = (levels: number) => `${'{"a":['.repeat(levels)}${']}'.repeat(levels)}`;
  const send = (payload: string) => app.inject({ ...post, url: '/v1/batch', payload });
  const item = '{"type":"track","userId":"u","event":"e","properties":';
  t.match((await send(`{"batch":[${item}${deep(60_000)}}]}`)).json(), { rejected: [{ code: 'too_deep' }] });
  t.match((await send('['.repeat(BATCH))).json(), { code: 'invalid_json' });
  t.match((await send(`${'['.repeat(BATCH / 2)}${']'.repeat(BATCH / 2)}`)).json(), { code: 'invalid_message' });
  t.match((await send(`{"context":${deep(60_000)},"batch":[${item}{}}]}`)).json(), { code: 'too_deep' });
  t.match((await send(`{"junk":${deep(60_000)},"batch":[${item}{}}]}`)).json(), { code: 'too_deep' });
  t.match((await send(`{"batch":[${deep(60_000)}]}`)).json(), { rejected: [{ code: 'unknown_type' }] });
  t.equal(accepted.length, 0);
  const keys = Object.fromEntries(Array.from({ length: 3_000 }, (_, index) => [`k${index}`, 1]));
  t.equal((await send(`{"batch":[${item}${JSON.stringify(keys)}}]}`)).body, '{"success":true}');
  t.same(JSON.parse(accepted[0]?.messages[0]?.body ?? '').properties, keys);
});

t.test('drops keys named __proto__ without an effect', async (t) => {
  const { app, accepted } = startService(t);
  const payload =
    '{"__proto__":{"writeKey":"WK_shop"},"context":{"__proto__":{"a":1}},"batch":[{"type":"track","userId":"u","event":"e","__proto__":{"polluted":1},"properties":{"constructor":{"prototype":{"polluted":1}}}}]}';
  t.equal((await app.inject({ method: 'POST', url: '/v1/batch', payload })).statusCode, 401);
  t.equal((await app.inject({ ...post, url: '/v1/batch', payload })).statusCode, 200);
  t.same(JSON.parse(accepted[0]?.messages[0]?.body ?? ''), {
    ...{ version: 1, type: 'track', messageId: 'id-1', userId: 'u', event: 'e' },
    ...{ timestamp: new Date(NOW).toISOString(), receivedAt: new Date(NOW).toISOString() },
    ...{ properties: { constructor: { prototype: { polluted: 1 } } }, context: {} },
  });
  t.equal(({} as Record<string, unknown>)['polluted'], undefined);
});

t.test('answers 408 to a body that dribbles in, and cuts it off', async (t) => {
  const service = startService(t, {
    node: { requestTimeout: 100, headersTimeout: 50, connectionsCheckingInterval: 20 },
  });
  const { hostname, port } = new URL(await service.url());
  const socket = connect(Number(port), hostname);
  socket.write(
    `POST /v1/batch HTTP/1.1\r\nhost: a\r\nauthorization: ${authorization}\r\ncontent-length: 100\r\n\r\n{"b`,
  );
  const [head = '', body = ''] = (await text(socket)).split('\r\n\r\n');
  t.match(head, /^HTTP\/1\.1 408 /);
  t.match(JSON.parse(body), { code: 'request_timeout', message: String, error: String });
  t.equal(service.accepted.length, 0);
});

t.test('answers invalid HTTP in JSON too', async (t) => {
  const { hostname, port } = new URL(await startService(t).url());
  const socket = connect(Number(port), hostname);
  socket.write('NONSENSE\r\n\r\n');
  const [head = '', body = ''] = (await text(socket)).split('\r\n\r\n');
  t.match(head, /^HTTP\/1\.1 400 /);
  t.match(JSON.parse(body), { code: 'invalid_request', message: String, error: String });
});

t.test('applies these limits to the server of the service', async (t) => {
  const { server } = createHttpServer(pino({ level: 'silent' }), { alive: () => {}, ready: async () => {} });
  t.equal(server.requestTimeout, 30_000);
  t.ok(server.headersTimeout < server.requestTimeout, 'or Node would ignore it');
});
