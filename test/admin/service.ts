import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pino } from 'pino';
import type { Test } from 'tap';
import { App } from '../../src/app.ts';
import { parseConfig } from '../../src/config/load.ts';
import type { Clock } from '../../src/kernel/clock.ts';
import { storeUrl } from '../helpers/store.ts';
import { type Contract, contractOf, type Json } from './contract.ts';

/** Where the management API is. */
export const V1 = '/api/v1';
const DOCUMENT = `${V1}/openapi.json`;

/** Every secret that a configuration can hold; none of them may stand in an answer, a page or the log. */
export const SECRETS = {
  root: 'hush-the-root-token',
  reader: 'hush-reader-token',
  operator: 'hush-operator-token',
  writeKey: 'hush-write-key',
  shared: 'hush-shared-secret',
  header: 'hush-header',
  password: 'hush-password',
  query: 'hush-query',
  notify: 'hush-notify',
  variable: 'hush-variable',
} as const;

export const CONFIG = {
  listen: { host: '127.0.0.1', port: 0 },
  admin: {
    token: SECRETS.root,
    tokens: [
      { name: 'grafana', token: SECRETS.reader, may: ['read'] },
      { name: 'airflow', token: SECRETS.operator, may: ['operate'] },
    ],
  },
  alerts: { notify: { url: `http://127.0.0.1:9/?key=${SECRETS.query}`, secret: SECRETS.notify } },
  sources: [{ id: 'shop', writeKey: SECRETS.writeKey }],
  destinations: [
    {
      name: 'crm',
      sources: ['shop'],
      sharedSecret: [SECRETS.shared],
      webhooks: [
        {
          url: `http://me:${SECRETS.password}@127.0.0.1:9/hook?key=${SECRETS.query}`,
          headers: { 'x-key': SECRETS.header },
        },
      ],
    },
  ],
  audiences: [
    {
      name: 'Regulars',
      source: 'shop',
      sql: "select 'u' || range as user_id, '\u0024{VARIABLE}' as note from range(3)",
    },
    { name: 'Guarded', source: 'shop', sql: "select 'u1' as user_id where $now < '2001-01-01'" },
    { name: 'Broken', source: 'shop', sql: 'select nothing' },
  ],
};

export interface Service {
  readonly app: App;
  readonly lines: readonly string[];
  /** Fails where an answer of the management API is not as its document says. */
  ask(path: string, options?: RequestInit & { token?: string | null }): Promise<Response>;
  json(path: string, options?: RequestInit & { token?: string | null }): Promise<Json>;
  post(path: string, body?: object, token?: string | null): Promise<Response>;
}

/** An endpoint that refuses every message; its port. */
async function refusing(t: Test): Promise<number> {
  const server = createServer(
    (request, response) => void request.resume().on('end', () => response.writeHead(400).end()),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** A whole service, with one audience synced, one held, one broken, and dead letters: its only endpoint refuses. */
export async function startService(
  t: Test,
  over: object = {},
  { folder = t.testdir(), ...options }: { readonly clock?: Clock; readonly folder?: string } = {},
): Promise<Service> {
  const text = JSON.stringify({
    ...CONFIG,
    network: { allow: ['127.0.0.0/8'] },
    store: storeUrl(t),
    engines: { lake: { type: 'duckdb', path: `${folder}/audiences.duckdb` } },
    ...over,
  }).replaceAll('@127.0.0.1:9/', `@127.0.0.1:${await refusing(t)}/`);
  const env = { VARIABLE: SECRETS.variable };
  const config = parseConfig(text, { file: 'rollcall.yaml', folder, env });
  const lines: string[] = [];
  const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
  const app = await App.create(config, { log, readConfig: () => config, ...options });
  t.teardown(() => app.close());
  await app.start({ collect: true, schedules: false });
  let contract: Contract | null = null;
  const asRoot = { headers: { authorization: `Bearer ${SECRETS.root}` } };
  const ask: Service['ask'] = async (path, { token = SECRETS.root, headers, ...rest } = {}) => {
    const response = await fetch(`${app.address}${path}`, {
      ...rest,
      headers: { ...(token === null ? {} : { authorization: `Bearer ${token}` }), ...headers } as never,
    });
    const type = response.headers.get('content-type') ?? '';
    if (!path.startsWith(`${V1}/`) || path === DOCUMENT || !type.startsWith('application/json')) return response;
    contract ??= contractOf((await (await fetch(app.address + DOCUMENT, asRoot)).json()) as Json);
    const { method = 'GET' } = rest;
    const [resource = ''] = path.split('?');
    const fault = contract(method, resource, { status: response.status, type, text: await response.clone().text() });
    if (fault !== null) throw new Error(`${method} ${path}: ${fault}`);
    return response;
  };
  return {
    app,
    lines,
    ask,
    json: async (path, options) => (await ask(path, options)).json(),
    post: (path, body = {}, token = SECRETS.root) =>
      ask(path, {
        method: 'POST',
        token,
        body: JSON.stringify(body),
        headers: { 'content-type': 'application/json' },
      }),
  };
}
