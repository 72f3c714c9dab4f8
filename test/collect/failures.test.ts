import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { PassThrough } from 'node:stream';
import { json } from 'node:stream/consumers';
import { pino } from 'pino';
import t from 'tap';
import { systemClock } from '../../src/kernel/clock.ts';
import { type ErrorCode, RollcallError } from '../../src/kernel/errors.ts';
import { authorization, basic, startService, track } from './service.ts';

const post = { method: 'POST', headers: { authorization } } as const;

t.test('rejects only the bad message of a batch', async (t) => {
  const { app, accepted } = startService(t);
  const batch = [
    track,
    { ...track, event: 7, messageId: 'm1' },
    null,
    { ...track, type: 'delete' },
    { ...track, event: 'Last' },
  ];
  const answer = await app.inject({ ...post, url: '/v1/batch', payload: { batch } });
  t.equal(answer.statusCode, 200);
  t.match(answer.json(), {
    success: true,
    rejected: [
      { index: 1, messageId: 'm1', code: 'event_not_string', message: String },
      { index: 2, messageId: null, code: 'invalid_message', message: String },
      { index: 3, messageId: null, code: 'unknown_type', message: String },
    ],
  });
  t.match(accepted, [{ messages: [{ type: 'track' }, { type: 'track' }] }]);
});

t.test('answers a batch of only bad messages without calling the store', async (t) => {
  const { app, accepted } = startService(t);
  const answer = await app.inject({ ...post, url: '/v1/batch', payload: { batch: [{}, 'x'] } });
  t.equal(answer.statusCode, 200);
  t.equal(answer.json().rejected.length, 2);
  t.equal(accepted.length, 0);
});

t.test('answers once the messages are durable', async (t) => {
  const durable = Promise.withResolvers<void>();
  const called = Promise.withResolvers<void>();
  const { app } = startService(t, {
    accept: () => {
      called.resolve();
      return durable.promise;
    },
  });
  let answered = false;
  const answer = app.inject({ ...post, url: '/v1/track', payload: track }).then((reply) => {
    answered = true;
    return reply;
  });
  await called.promise;
  t.equal(answered, false);
  durable.resolve();
  t.equal((await answer).statusCode, 200);
});

t.test('answers 503 with Retry-After if the store accepts nothing', async (t) => {
  const messages: Partial<Record<ErrorCode, string>> = {
    store_full: 'The store is full; try again later.',
    store_busy: 'The store takes nothing now; try again later.',
    store_failed: 'The store takes nothing now; try again later.',
    store_closed: 'Why.',
    stopping: 'Why.',
  };
  for (const [code, message] of Object.entries(messages) as [ErrorCode, string][]) {
    const { app } = startService(t, { accept: async () => Promise.reject(new RollcallError(code, 'Why.')) });
    for (const [url, payload] of [
      ['/v1/batch', { batch: [track, {}] }],
      ['/v1/track', track],
    ] as const) {
      const answer = await app.inject({ ...post, url, payload });
      t.equal(answer.statusCode, 503, code);
      t.match(answer.headers['retry-after'], /^[1-9]\d*$/);
      t.match(answer.json(), { code, message, error: message });
    }
  }
});

t.test('logs why the store failed, but names its host to no client', async (t) => {
  for (const code of ['store_full', 'store_busy', 'store_failed'] as const) {
    const log = new PassThrough();
    const accept = async () => Promise.reject(new RollcallError(code, 'connect ECONNREFUSED 10.0.0.5:5432'));
    const { app } = startService(t, { accept, log: pino({ level: 'error' }, log) });
    const answer = await app.inject({ ...post, url: '/v1/track', payload: track });
    t.notMatch(answer.body, '10.0.0.5');
    t.match(String(log.read()), '10.0.0.5');
  }
});

t.test('writes one log line per ten seconds of requests while the store accepts nothing', async (t) => {
  const log = new PassThrough();
  let now = 0;
  const { app } = startService(t, {
    clock: { ...systemClock, monotonic: () => now },
    accept: async () => Promise.reject(new RollcallError('store_full', 'The disk is full.')),
    log: pino({ level: 'error' }, log),
  });
  const refuse = async (times: number) => {
    for (let n = 0; n < times; n += 1) await app.inject({ ...post, url: '/v1/track', payload: track });
    const lines = String(log.read() ?? '').split('\n');
    return lines.filter((line) => line.includes('not taken')).map((line) => JSON.parse(line));
  };
  t.match(await refuse(3), [{ code: 'store_full', source: 'shop', refused: 1 }]);
  now += 9_000;
  t.strictSame(await refuse(2), []);
  now += 2_000;
  t.match(await refuse(1), [{ refused: 5 }]);
  const data = btoa(JSON.stringify({ ...track, writeKey: 'WK_shop' }));
  for (let n = 0; n < 5; n += 1) {
    t.equal((await app.inject({ url: `/v1/pixel/track?data=${encodeURIComponent(data)}` })).statusCode, 503);
  }
  t.equal(String(log.read()).trim().split('\n').length, 1, 'of pixels, too');
});

t.test('logs unexpected errors, but shows them to no client', async (t) => {
  const log = new PassThrough();
  const accept = async () => Promise.reject(new Error('secret WK_shop'));
  const { app } = startService(t, { accept, log: pino({ level: 'error' }, log) });
  const answer = await app.inject({ ...post, url: '/v1/track', payload: track });
  t.equal(answer.statusCode, 500);
  t.match(answer.json(), { code: 'internal_error', message: String, error: String });
  t.notMatch(answer.body, 'secret');
  t.match(String(log.read()), 'secret');
});

t.test('refuses new requests beyond the memory for pending ones, which finish', async (t) => {
  const durable = Promise.withResolvers<void>();
  const called = Promise.withResolvers<void>();
  const { app } = startService(t, {
    edge: { pendingBytes: 40_000 },
    accept: () => {
      called.resolve();
      return durable.promise;
    },
  });
  const send = (bytes: number, headers = {}) =>
    app.inject({
      method: 'POST',
      url: '/v1/track',
      payload: { ...track, filler: 'x'.repeat(bytes) },
      headers: { authorization, ...headers },
    });
  const first = send(30_000);
  await called.promise;
  const refused = await send(30_000);
  t.equal(refused.statusCode, 503);
  t.match(refused.json(), { code: 'overloaded' });
  t.match(refused.headers['retry-after'], /^\d+$/);
  const small = send(10);
  durable.resolve();
  t.equal((await first).statusCode, 200);
  t.equal((await small).statusCode, 200);
  t.equal((await send(30_000)).statusCode, 200, 'and there is room again');
});

t.test('frees the memory of a client that hangs up', async (t) => {
  const service = startService(t, { edge: { pendingBytes: 640_000 } });
  const url = `${await service.url()}/v1/batch`;
  const halves = request(url, { method: 'POST', headers: { authorization, 'content-length': 500_000 } });
  halves.on('error', () => {});
  const arrived = new Promise<IncomingMessage>((resolve) => {
    service.app.server.once('request', (incoming) => {
      let read = 0;
      incoming.on('data', ({ length }: Buffer) => {
        read += length;
        if (read === 400_000) resolve(incoming);
      });
    });
  });
  halves.write('x'.repeat(400_000));
  const incoming = await arrived;
  const closed = once(incoming.socket, 'close');
  halves.destroy();
  await closed;
  const body = JSON.stringify({ batch: [{ ...track, filler: ['x'.repeat(30_000)] }], filler: 'x'.repeat(120_000) });
  const again = request(url, { method: 'POST', headers: { authorization, 'content-length': body.length } }).end(body);
  const [answer] = await once(again, 'response');
  t.strictSame(await json(answer), { success: true });
});

t.test('neither logs an aborted request nor counts it as a discard', async (t) => {
  const log = new PassThrough();
  const discards: string[] = [];
  const onDiscard = (_source: string | null, code: string) => discards.push(code);
  const service = startService(t, { onDiscard, log: pino({ level: 'warn' }, log) });
  const { hostname, port } = new URL(await service.url());
  const heads = ['content-length: 50\r\n', `authorization: ${authorization}\r\ncontent-length: 50\r\n`];
  for (const head of [...heads, 'transfer-encoding: chunked\r\n']) {
    const arrived = once(service.app.server, 'request');
    const socket = connect(Number(port), hostname);
    socket.write(`POST /v1/track HTTP/1.1\r\nhost: a\r\n${head}\r\n5\r\n{"use\r\n`);
    const [incoming] = (await arrived) as [IncomingMessage];
    incoming.on('error', () => {});
    const ended = new Promise((resolve) => incoming.once('close', resolve));
    socket.destroy();
    await ended;
  }
  // Whoever answers what broke off has done it before this is answered.
  t.equal((await fetch(`${await service.url()}/v1/track`, { method: 'POST', headers: { authorization } })).status, 400);
  t.equal(log.read(), null);
  t.strictSame(discards, ['invalid_json']);
});

t.test('answers 429 with Retry-After only to the source over its rate', async (t) => {
  const sources = ['a', 'b', 'slow'].map((id) => ({ id, writeKey: id, enabled: true, ratePerSecond: 2 }));
  sources[2]!.ratePerSecond = 1 / 60;
  const { app, accepted } = startService(t, { sources: () => sources });
  const send = (key: string, inBody = false) =>
    app.inject({
      method: 'POST',
      url: '/v1/track',
      payload: inBody ? { ...track, writeKey: key } : track,
      headers: inBody ? {} : { authorization: basic(key) },
    });
  const answers = await Promise.all([send('a'), send('a', true), send('a'), send('b')]);
  t.same(answers.map(({ statusCode }) => statusCode).toSorted(), [200, 200, 200, 429]);
  const refused = answers.find(({ statusCode }) => statusCode === 429);
  t.match(refused?.json(), { code: 'rate_limited', message: String, error: String });
  t.match(refused?.headers['retry-after'], /^[1-9]\d*$/);
  t.equal(accepted.filter(({ source }) => source === 'a').length, 2);
  t.equal((await send('slow')).statusCode, 200);
  const slow = await send('slow');
  t.equal(slow.statusCode, 429);
  t.ok(Number(slow.headers['retry-after']) > 50, 'one a minute');
});

t.test('leaves the parsers, hooks and errors of the host app alone', async (t) => {
  const { app } = startService(t);
  app.post('/mine', async (request) => ({ got: request.body, source: request.collectSource ?? null }));
  const answer = await app.inject({ method: 'POST', url: '/mine', payload: { a: 1 } });
  t.strictSame(answer.json(), { got: { a: 1 }, source: null });
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  t.equal((await app.inject({ method: 'POST', url: '/mine', payload: 'a=1', headers: form })).statusCode, 415);
});
