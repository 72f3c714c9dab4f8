import { request } from 'node:http';
import { json } from 'node:stream/consumers';
import Fastify, { type FastifyInstance, type InjectOptions } from 'fastify';
import t, { type Test } from 'tap';
import { Gate } from '../../src/admin/guard.ts';
import { RIGHTS } from '../../src/config/config.ts';
import { answerError } from '../../src/http/errors.ts';

const createGuard = (token: () => string | null) => {
  const tokens = () =>
    [token()].flatMap((each) => (each === null ? [] : [{ name: 'admin', token: each, may: RIGHTS }]));
  return new Gate({ tokens }).guard('delete');
};

function guarded(t: Test, token: string | null): FastifyInstance {
  const app = Fastify();
  app.setErrorHandler(answerError);
  app.addContentTypeParser('*', (_request, _payload, done) => done(null, null));
  app.addHook(
    'onRequest',
    createGuard(() => token),
  );
  app.all('/admin', async () => ({ in: true }));
  t.teardown(() => app.close());
  return app;
}

const local = { method: 'GET', url: '/admin', headers: { host: 'localhost:8080' } } as const;

t.test('with a token, admits only requests that bear it, wherever they are from', async (t) => {
  const app = guarded(t, 'correct-horse');
  const far = {
    ...local,
    remoteAddress: '203.0.113.7',
    headers: { host: 'rollcall.example', 'x-forwarded-for': '1.2.3.4' },
  };
  const send = (authorization?: string) =>
    app.inject({ ...far, headers: { ...far.headers, ...(authorization !== undefined && { authorization }) } });
  for (const good of ['Bearer correct-horse', 'bearer correct-horse'])
    t.equal((await send(good)).statusCode, 200, good);
  const bad = [
    'Bearer correct-hors',
    'Bearer correct-horse2',
    'Bearer',
    'correct-horse',
    'Basic Y29ycmVjdC1ob3JzZTo=',
    '',
  ];
  for (const authorization of [undefined, ...bad]) {
    const answer = await send(authorization);
    t.equal(answer.statusCode, 401, String(authorization));
    t.match(answer.headers['www-authenticate'], /^Bearer/);
    t.match(answer.json(), { code: 'unauthorized', message: String, error: String });
  }
});

t.test('applies a changed token at once', async (t) => {
  let token: string | null = 'one';
  const guard = createGuard(() => token);
  const app = Fastify().setErrorHandler(answerError).addHook('onRequest', guard);
  app.get('/admin', async () => 'in');
  const headers = { ...local.headers, authorization: 'Bearer one' };
  t.equal((await app.inject({ ...local, headers })).statusCode, 200);
  token = 'two';
  t.equal((await app.inject({ ...local, headers })).statusCode, 401);
  token = null;
  t.equal((await app.inject(local)).statusCode, 200);
});

t.test('without a token, serves only this machine', async (t) => {
  const app = guarded(t, null);
  const send = async (options: InjectOptions, headers: Record<string, string> = {}) =>
    (await app.inject({ ...local, ...options, headers: { ...local.headers, ...headers } })).statusCode;
  t.equal(await send({}), 200);
  for (const remoteAddress of ['127.0.0.1', '127.8.9.1', '::1', '::ffff:127.0.0.1'])
    t.equal(await send({ remoteAddress }), 200, remoteAddress);
  for (const remoteAddress of ['192.168.1.7', '10.0.0.1', '::ffff:192.168.1.7', 'fe80::1', '203.0.113.7']) {
    t.equal(await send({ remoteAddress }), 403, remoteAddress);
  }
  for (const host of ['127.0.0.1', '127.0.0.1:8080', '[::1]:8080', 'LOCALHOST', 'localhost'])
    t.equal(await send({}, { host }), 200, host);
  for (const host of [
    'evil.example',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    '192.168.1.7:8080',
    'a b',
    '0.0.0.0',
  ]) {
    t.equal(await send({}, { host }), 403, host);
  }
});

t.test('without a token, refuses requests through a proxy', async (t) => {
  const app = guarded(t, null);
  for (const name of ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip', 'via']) {
    const answer = await app.inject({ ...local, headers: { ...local.headers, [name]: '127.0.0.1' } });
    t.equal(answer.statusCode, 403, name);
    t.match(answer.json(), { code: 'forbidden', message: String, error: String });
  }
});

t.test('without a token, refuses other pages in a local browser', async (t) => {
  const app = guarded(t, null);
  const send = async (headers: Record<string, string>, payload?: string) => {
    const options = { ...local, method: 'POST', headers: { ...local.headers, ...headers } } as const;
    return (await app.inject(payload === undefined ? options : { ...options, payload })).statusCode;
  };
  t.equal(await send({ origin: 'http://localhost:8080' }), 200);
  for (const origin of ['http://localhost:3000', 'https://evil.example', 'null', 'http://127.0.0.1:8080']) {
    t.equal(await send({ origin }), 403, origin);
  }
  const look = async (site: string, dest: string) => {
    const headers = { ...local.headers, 'sec-fetch-site': site, 'sec-fetch-dest': dest };
    return (await app.inject({ ...local, headers })).statusCode;
  };
  for (const site of ['cross-site', 'same-site'])
    for (const dest of ['image', 'script', 'iframe', 'empty']) t.equal(await look(site, dest), 403, `${site} ${dest}`);
  t.equal(await look('cross-site', 'document'), 200, 'a link is followed');
  for (const site of ['same-origin', 'none']) t.equal(await look(site, 'empty'), 200, site);
  t.equal(await send({ 'content-type': 'application/json' }, '{}'), 200);
  t.equal(await send({ 'content-type': 'application/json; charset=utf-8' }, '{}'), 200);
  t.equal(await send({}), 200, 'no body at all');
  for (const type of [
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/jsonx',
  ]) {
    t.equal(await send({ 'content-type': type }, '{}'), 415, type);
  }
});

t.test('without a token, serves a real socket too', async (t) => {
  const app = guarded(t, null);
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  const { promise, resolve } = Promise.withResolvers<unknown>();
  request(`${url}/admin`, { headers: { host: 'evil.example' } }, async (answer) => resolve(await json(answer))).end();
  t.match(await promise, { code: 'forbidden' });
  t.strictSame(await (await fetch(`${url}/admin`)).json(), { in: true });
});
