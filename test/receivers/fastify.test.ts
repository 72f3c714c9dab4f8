import { setImmediate as immediate } from 'node:timers/promises';
import { createGunzip, gzipSync } from 'node:zlib';
import rateLimit from '@fastify/rate-limit';
import Fastify, { type FastifyInstance } from 'fastify';
import t from 'tap';
import { bodies, onDelete, onIdentify, type RequestHead, receiver, signature } from '../../receivers/index.ts';
import { conformance, signed, webhook } from '../../receivers/testing.ts';
import { manualClock, signal } from './helpers/clock.ts';
import { listen } from './helpers/hosts.ts';
import { secret } from './helpers/samples.ts';

/** An app that has everything a receiver could trip over, or break. */
function busyHost(): FastifyInstance {
  const app = Fastify({ bodyLimit: 512 });
  app.register(rateLimit, { max: 10_000 });
  app.addContentTypeParser('text/csv', { parseAs: 'string' }, (_, body, done) => done(null, String(body).split(',')));
  app.removeContentTypeParser('application/json');
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (_, body, done) => {
    done(null, { parsedByHost: JSON.parse(String(body)) });
  });
  app.addHook('preParsing', async (request, _, payload) =>
    request.headers['content-encoding'] === 'gzip' ? payload.pipe(createGunzip()) : payload,
  );
  app.addHook('preValidation', async (request) => {
    if (request.body !== undefined) request.body = Object.assign(request.body as object, { touchedByHost: true });
  });
  app.setErrorHandler((error, _, reply) => reply.code(500).send({ brokenByHost: String(error) }));
  app.post('/echo', async (request) => request.body ?? {});
  app.register(async (scope) => {
    scope.addHook('onRequest', async (request, reply) => {
      if (request.headers.authorization === undefined) return reply.code(401).send({ login: 'please' });
    });
    scope.get('/private', async () => ({ secret: true }));
  });
  return app;
}

const hostRequests = [
  { method: 'POST', url: '/echo', payload: { a: 1 } },
  { method: 'POST', url: '/echo', payload: 'a,b', headers: { 'content-type': 'text/csv' } },
  { method: 'POST', url: '/echo', payload: 'x', headers: { 'content-type': 'text/plain' } },
  { method: 'POST', url: '/echo', payload: 'x', headers: { 'content-type': 'application/xml' } },
  {
    method: 'POST',
    url: '/echo',
    payload: gzipSync('{"zipped":true}'),
    headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
  },
  { method: 'POST', url: '/echo', payload: 'not JSON', headers: { 'content-type': 'application/json' } },
  { method: 'POST', url: '/echo', payload: { long: 'x'.repeat(600) } },
  { method: 'POST', url: '/echo' },
  { method: 'GET', url: '/private' },
  { method: 'GET', url: '/private', headers: { authorization: 'x' } },
  { method: 'GET', url: '/nowhere' },
  { method: 'GET', url: '/hooks' },
] as const;

const volatile = new Set(['date', 'x-ratelimit-reset', 'x-ratelimit-remaining']);

async function answers(app: FastifyInstance) {
  const all = [];
  for (const request of hostRequests) {
    const { statusCode, headers, body } = await app.inject(request);
    all.push({ statusCode, body, headers: Object.entries(headers).filter(([name]) => !volatile.has(name)) });
  }
  await app.close();
  return all;
}

t.test("leaves the host's own routes exactly as without the receiver", async (t) => {
  const withReceiver = busyHost();
  withReceiver.register(receiver, { path: '/hooks', secret, on: {} });
  t.same(await answers(withReceiver), await answers(busyHost()));
});

t.test('passes every conformance case inside a busy host', async (t) => {
  const app = busyHost();
  app.register(receiver, { path: '/hooks', secret, on: {} });
  t.after(() => app.close());
  const url = `${await listen(app)}/hooks`;
  for await (const { name, got, passed, expected } of conformance({ url, secret })) {
    t.ok(passed, `${name}: ${got}`, { expected });
  }
});

t.test('answers 415 to a body without content-type, whatever the host makes of errors', async (t) => {
  const app = Fastify();
  app.setErrorHandler((_, __, reply) => reply.code(500).send());
  app.register(async (scope) => {
    await scope.register(signature, { secret });
    scope.post('/hooks', async () => ({}));
  });
  t.after(() => app.close());
  const { headers, body } = signed(webhook('track'), secret);
  const { 'content-type': _, ...untyped } = headers;
  const url = await listen(app);
  const response = await fetch(`${url}/hooks`, { method: 'POST', headers: untyped, body: Buffer.from(body) });
  t.equal(response.status, 415);
});

t.test("keeps the status of the host's own refusals, whatever its error handler does", async (t) => {
  const app = Fastify();
  app.setErrorHandler((_, __, reply) => reply.code(500).send());
  await app.register(rateLimit, { max: 1 });
  app.register(receiver, { path: '/hooks', secret, on: {} });
  t.after(() => app.close());
  const send = () => {
    const { headers, body } = signed(webhook('track'), secret);
    return app.inject({ method: 'POST', url: '/hooks', headers, payload: body });
  };
  t.equal((await send()).statusCode, 200);
  const limited = await send();
  t.equal(limited.statusCode, 429);
  t.ok(limited.headers['retry-after']);
});

t.test('refuses to start with plugins that would do nothing, or accept bodies of any size', async (t) => {
  const wrong = [
    [onDelete, { handle() {} }, /^handler is a function/],
    [signature, { bodyLimit: '1mb' }, /^bodyLimit is a number above 0, not 1mb/],
    [bodies, { bodyLimit: '1mb' }, /^bodyLimit is a number above 0, not 1mb/],
  ] as const;
  for (const [plugin, options, message] of wrong) {
    const app = Fastify();
    app.register(plugin, { secret: 's', ...options } as never);
    await t.rejects(async () => app.ready(), { name: 'TypeError', message });
  }
});

t.test('runs several receivers in one app, each with its secret, below a prefix', async (t) => {
  const app = Fastify();
  const seen: string[] = [];
  app.register(onDelete, {
    prefix: '/gone',
    secret: 'one',
    handler: ({ userId }) => void seen.push(`delete ${userId}`),
  });
  app.register(onIdentify, {
    path: '/people',
    secret: 'two',
    handler: ({ traits }) => void seen.push(`identify ${traits['plan']}`),
  });
  t.after(() => app.close());
  const send = async (url: string, body: unknown, key: string) => {
    const made = signed(body, key);
    return (await app.inject({ method: 'POST', url, headers: made.headers, payload: made.body })).statusCode;
  };
  t.equal(await send('/gone', webhook('delete', { userId: 'u9' }), 'one'), 200);
  t.equal(await send('/gone', webhook('delete'), 'two'), 401);
  t.equal(await send('/people', webhook('identify'), 'two'), 200);
  t.equal(await send('/people', webhook('track'), 'two'), 200);
  t.same(seen, ['delete u9', 'identify pro']);
});

t.test('verifies all routes of the scope of signature and no others, and keeps the raw bytes', async (t) => {
  const app = Fastify();
  app.register(async (scope) => {
    scope.register(signature, { secret: ['new', secret] });
    scope.post('/raw', async ({ webhook }) => ({ text: webhook?.rawBody.toString(), secret: webhook?.secret }));
    scope.get('/look', async () => ({ seen: true }));
  });
  app.post('/open', async ({ body, webhook }) => ({ body, webhook }));
  t.after(() => app.close());
  const { headers } = signed(' {"a": 1}', secret);
  const raw = await app.inject({ method: 'POST', url: '/raw', headers, payload: ' {"a": 1}' });
  t.same(raw.json(), { text: ' {"a": 1}', secret: 1 });
  t.equal((await app.inject({ method: 'POST', url: '/raw', payload: { a: 1 } })).statusCode, 401);
  t.equal((await app.inject({ method: 'GET', url: '/look' })).statusCode, 401);
  t.same((await app.inject({ method: 'POST', url: '/open', payload: { a: 1 } })).json(), { body: { a: 1 } });
});

t.test('parses bodies into messages, verified or not', async (t) => {
  for (const secured of [true, false]) {
    const app = Fastify();
    app.register(async (scope) => {
      if (secured) scope.register(signature, { secret });
      scope.register(bodies);
      scope.post('/hooks', async ({ body }) => body);
    });
    t.after(() => app.close());
    const send = async (body: unknown) => {
      const made = signed(body, secret);
      return app.inject({ method: 'POST', url: '/hooks', headers: made.headers, payload: made.body });
    };
    t.match((await send(webhook('alias', { 'Previous ID': 'p' }))).json(), {
      type: 'alias',
      previousId: 'p',
      userId: 'u1',
    });
    const refused = await send({ type: 'track' });
    t.match({ status: refused.statusCode, ...refused.json() }, { status: 400, code: 'invalid_body' });
  }
});

t.test('counts the deadline from the head of the request, also if the app keeps no log', async (t) => {
  const clock = manualClock();
  const [arrived, started, release] = [signal(), signal(), signal()];
  const app = Fastify();
  app.addHook('onRequest', async () => arrived.resolve());
  app.register(receiver, {
    path: '/hooks',
    secret,
    clock,
    deadline: 4500,
    on: {
      async track() {
        started.resolve();
        await release.promise;
      },
    },
  });
  t.after(() => app.close());
  const url = `${await listen(app)}/hooks`;
  const { headers, body } = signed(webhook('track'), secret);
  const upload = new TransformStream<Uint8Array, Uint8Array>();
  const writer = upload.writable.getWriter();
  const answer = fetch(url, { method: 'POST', headers, body: upload.readable, duplex: 'half' });
  void writer.write(Buffer.from(body.slice(0, 10)));
  await arrived.promise;
  await immediate();
  clock.advance(3000);
  void writer.write(Buffer.from(body.slice(10)));
  void writer.close();
  await started.promise;
  await immediate();
  clock.advance(1500);
  t.equal((await answer).status, 503);
  release.resolve();
});

t.test('lets the secret function destructure its request', async (t) => {
  const app = Fastify();
  const find = ({ url, header }: RequestHead) => (header('x-tenant') === 'a' && url === '/hooks' ? secret : []);
  app.register(receiver, { path: '/hooks', secret: find, on: { track() {} } });
  t.after(() => app.close());
  const { headers, body } = signed(webhook('track'), secret);
  for (const [tenant, status] of [
    ['a', 200],
    ['b', 401],
  ] as const) {
    const sent = { ...headers, 'x-tenant': tenant };
    t.equal((await app.inject({ method: 'POST', url: '/hooks', headers: sent, payload: body })).statusCode, status);
  }
});

t.test('waits for running handlers when the app closes', async (t) => {
  const app = Fastify();
  const [started, release] = [signal(), signal()];
  app.register(receiver, {
    path: '/hooks',
    secret,
    on: {
      async track() {
        started.resolve();
        await release.promise;
      },
    },
  });
  const url = `${await listen(app)}/hooks`;
  const { headers, body } = signed(webhook('track'), secret);
  const answer = fetch(url, { method: 'POST', headers, body });
  await started.promise;
  const closed = app.close();
  release.resolve();
  t.equal((await answer).status, 200);
  await closed;
});

t.test('stops the app from starting if a secret is missing', async (t) => {
  const app = Fastify();
  app.register(receiver, { path: '/hooks', secret: '', on: {} });
  await t.rejects(async () => app.ready(), { message: /secret/ });
  await app.close();
});
