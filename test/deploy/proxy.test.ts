import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { Agent, type RequestOptions, request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { createHttpServer } from '../../src/http/server.ts';

import { needs } from '../helpers/installed.ts';
import { type ProxyName, startProxy } from './proxies.ts';

const ADMIN = ['/', '/api/v1/overview', '/regulations', '/metrics', '/docs/json', '/healthz'];
/** Ways to say an admin route that a proxy may read as one of collection. */
const DISGUISES = [
  '/v1/..',
  '/v1/%2e%2e',
  '/v1/%2E%2E%2f..',
  '/v1/.',
  '/beacon/../',
  '/',
  '/./v1/..',
  '/sourceConfig/..;',
];

/** Rollcall's server, with a route that answers what it knows of its client, behind a proxy. */
async function behind(t: Test, name: ProxyName) {
  const health = { alive: () => {}, ready: async () => {} };
  const server = createHttpServer(pino({ level: 'silent' }), health, ['127.0.0.1']);
  server.post('/v1/track', { bodyLimit: 512_000 }, async ({ ip, host, protocol }) => ({ ip, host, protocol }));
  for (const path of ADMIN) if (path !== '/healthz') server.all(path, async () => 'inside');
  await server.listen({ port: 0, host: '127.0.0.1' });
  t.teardown(() => server.close());
  const proxy = await startProxy(name, (server.server.address() as AddressInfo).port);
  t.teardown(() => proxy.stop());
  const defaults = { host: '127.0.0.1', port: proxy.port, servername: 'localhost', rejectUnauthorized: false };
  return (options: RequestOptions) => {
    const headers = { host: 'localhost', ...options.headers };
    return request({ ...defaults, method: 'POST', path: '/v1/track', agent: false, ...options, headers });
  };
}

type Begin = Awaited<ReturnType<typeof behind>>;

/** Status and text of an answer; 0 if the proxy hung up instead. */
async function send(begin: Begin, options: RequestOptions, body = '{}') {
  const outgoing = begin({ ...options, headers: { 'content-type': 'application/json', ...options.headers } });
  outgoing.on('error', () => {}).end(body);
  try {
    const [answer] = await once(outgoing, 'response');
    return { status: answer.statusCode as number, text: (await answer.setEncoding('utf8').toArray()).join('') };
  } catch {
    return { status: 0, text: '' };
  }
}

for (const name of ['nginx', 'caddy'] as const) {
  t.test(`${name} passes collection on with the client's address`, needs(name), async (t) => {
    const begin = await behind(t, name);
    const forged = { 'x-forwarded-for': '6.6.6.6', 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'http' };
    const { status, text } = await send(begin, { localAddress: '127.0.1.7', headers: forged });
    t.equal(status, 200);
    t.match(JSON.parse(text), { ip: '127.0.1.7', host: 'localhost', protocol: 'https' });
    t.equal((await send(begin, { path: '/readyz', method: 'GET' })).status, 200);
  });

  t.test(`${name} keeps everything else inside`, needs(name), async (t) => {
    const begin = await behind(t, name);
    const paths = ADMIN.flatMap((path) => [path, ...DISGUISES.map((disguise) => disguise + path)]);
    for (const path of paths) {
      const { status, text } = await send(begin, { path, method: 'GET' });
      t.ok(status >= 300 && text !== 'inside', `${path}: ${status}`);
    }
  });

  t.test(`${name} refuses large bodies and headers`, needs(name), async (t) => {
    const begin = await behind(t, name);
    const large = await send(begin, {}, ' '.repeat(600_000));
    // A client drops a message that was refused with these, and tries one again that got 502.
    t.ok([400, 413].includes(large.status), String(large.status));
    const { status } = await send(begin, { headers: { 'x-long': 'x'.repeat(40_000) } });
    t.ok(status === 0 || status >= 400, String(status));
  });
}

t.test('nginx limits the connections and the rate of each client', needs('nginx'), async (t) => {
  const begin = await behind(t, 'nginx');
  const headers = { 'content-length': 10 };
  const flood = Array.from({ length: 100 }, () => begin({ localAddress: '127.0.1.1', headers }).on('error', () => {}));
  const refused = flood.map((each) => once(each, 'response'));
  for (const each of flood) each.flushHeaders();
  await Promise.any(refused);
  t.equal((await send(begin, { localAddress: '127.0.1.1' })).status, 429);
  t.equal((await send(begin, { localAddress: '127.0.1.2' })).status, 200);
  for (const each of flood) each.destroy();
  await Promise.allSettled(refused);
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  t.teardown(() => agent.destroy());
  const burst = await Promise.all(Array.from({ length: 500 }, () => send(begin, { localAddress: '127.0.1.3', agent })));
  t.ok(burst.some(({ status }) => status === 429));
  t.equal((await send(begin, { localAddress: '127.0.1.4' })).status, 200);
});

t.test('Caddy accepts its file as it is', needs('caddy'), async (t) => {
  const path = join(import.meta.dirname, '../../deploy/proxy/Caddyfile');
  const env = { ...process.env, HOME: t.testdir({}) };
  const args = ['adapt', '--config', path, '--adapter', 'caddyfile', '--validate'];
  const { stderr } = await promisify(execFile)('caddy', args, { env });
  t.notMatch(stderr, /WARN/);
});
