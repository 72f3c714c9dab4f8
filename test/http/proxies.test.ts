import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { App } from '../../src/app.ts';
import { parseConfig } from '../../src/config/load.ts';
import { freePort } from '../helpers/free-port.ts';
import { needs } from '../helpers/installed.ts';
import { until } from '../helpers/until.ts';

/** A service that nobody has given a token, in a folder of its own. */
async function startService(t: Test) {
  const folder = t.testdir();
  const file = { store: 'sqlite::memory:', listen: { port: 0 }, sources: [{ id: 'shop', writeKey: 'key' }] };
  const config = parseConfig(JSON.stringify(file), { file: 'rollcall.yaml', folder, env: {} });
  const app = await App.create(config, { log: pino({ level: 'silent' }) });
  t.teardown(() => app.close());
  await app.start({ collect: true, schedules: false });
  return { folder, address: app.address ?? '', token: readFileSync(config.admin.tokenFile, 'utf8') };
}

type Paths = Readonly<Record<string, Readonly<Record<string, object>>>>;

/** Every admin route, with words for its parameters. */
async function adminRoutes({ address, token }: { readonly address: string; readonly token: string }) {
  const headers = { authorization: `Bearer ${token}` };
  const document = await (await fetch(`${address}/api/v1/openapi.json`, { headers })).json();
  const { paths } = document as { paths: Paths };
  const managed = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => [method.toUpperCase(), path.replaceAll(/\{\w+\}/g, 'x')] as const),
  );
  const others = [
    ['GET', '/metrics'],
    ['POST', '/regulations'],
    ['GET', '/regulations/x'],
    ['POST', '/regulations/sources/shop'],
  ] as const;
  return [...managed, ...others];
}

/** Asks every admin route of the service through a proxy, as strangers do. */
async function refusesStrangers(t: Test, command: string, argsOf: (port: number, to: URL, folder: string) => string[]) {
  const service = await startService(t);
  const port = await freePort();
  const proxy = spawn(command, argsOf(port, new URL(service.address), service.folder), { stdio: 'ignore' });
  t.teardown(async () => {
    const ended = once(proxy, 'exit');
    proxy.kill('SIGTERM');
    await ended;
  });
  const through = `http://127.0.0.1:${port}`;
  await until(async () => (await fetch(`${through}/healthz`).catch(() => null))?.status === 200);
  const routes = await adminRoutes(service);
  t.ok(routes.length >= 50, `${routes.length} routes`);
  for (const [method, path] of routes) {
    const body = method === 'POST' ? '{}' : null;
    const answer = await fetch(through + path, { method, body, headers: { 'content-type': 'application/json' } });
    t.match([answer.status, await answer.json()], [401, { code: 'unauthorized' }], `${method} ${path}`);
  }
  const open = await fetch(`${through}/`);
  const said = `${JSON.stringify([...open.headers])}${await open.text()}`;
  t.equal(open.status, 200, 'the pages load');
  t.notMatch(said, JSON.parse(readFileSync('package.json', 'utf8')).version);
}

const nginx = (lines: string) => (port: number, to: URL, folder: string) => {
  const file = join(folder, 'nginx.conf');
  const location = `location / { proxy_pass ${to.origin}; ${lines} }`;
  writeFileSync(
    file,
    `daemon off; pid ${folder}/nginx.pid; error_log stderr; events {}
    http { access_log off; server { listen 127.0.0.1:${port}; ${location} } }`,
  );
  return ['-c', file, '-p', folder];
};

const haproxy = (mode: string) => (port: number, to: URL, folder: string) => {
  const file = join(folder, 'haproxy.cfg');
  writeFileSync(
    file,
    `defaults
  mode ${mode}
  timeout client 10s
  timeout server 10s
  timeout connect 10s
listen rollcall
  bind 127.0.0.1:${port}
  server one ${to.host}
`,
  );
  return ['-f', file];
};

for (const [name, lines] of [
  ['proxy_pass alone', ''],
  ['its Host', 'proxy_set_header Host $host;'],
  ['a Host of this machine', 'proxy_set_header Host localhost;'],
] as const)
  t.test(`lets no stranger in through nginx with ${name}`, needs('nginx'), (t) =>
    refusesStrangers(t, 'nginx', nginx(lines)),
  );
for (const mode of ['http', 'tcp'])
  t.test(`lets no stranger in through HAProxy, mode ${mode}`, needs('haproxy'), (t) =>
    refusesStrangers(t, 'haproxy', haproxy(mode)),
  );
