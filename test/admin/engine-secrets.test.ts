import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { openReader } from '../../jobs/readers/open.ts';
import type { EngineConfig } from '../../src/config/config.ts';
import { Bucket } from '../../src/store/bucket/bucket.ts';
import { rollcall } from '../cli/helpers.ts';
import { CONFIG, startService, V1 } from './service.ts';

const HUSH = 'hush-of-an-engine';
const { privateKey: key } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
const privateKey = String(key.export({ type: 'pkcs8', format: 'pem' }));

/** A server that answers each request, once it is whole; its address. */
async function answering(
  t: Test,
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<string> {
  const server = createServer((request, response) => {
    request.resume().on('end', () => answer(request, response));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close().closeAllConnections());
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Databases that are only read, none of which answers as one. */
const enginesAt = (host: string) => ({
  mysql: { type: 'mysql', url: `mysql://me:${HUSH}@127.0.0.1:1/shop?password=${HUSH}`, options: { password: HUSH } },
  postgres: { type: 'postgres', url: `postgres://me:${HUSH}@${host}/shop?password=${HUSH}` },
  trino: { type: 'trino', url: `https://me:${HUSH}@${host}/hive/shop` },
  snowflake: { type: 'snowflake', account: 'shop', user: 'me', privateKey, url: `http://${host}` },
  google: {
    ...{ type: 'bigquery', project: 'shop', url: `http://${host}` },
    credentials: JSON.stringify({ client_email: 'a@b', private_key: privateKey, token_uri: `http://${host}/token` }),
  },
  click: { type: 'clickhouse', url: `http://me:${HUSH}@${host}/shop` },
});

t.test('shows no credentials of an engine or a bucket in any answer, log line or output', async (t) => {
  // Refuses everything and repeats it, as pages of proxies for debugging do.
  const host = await answering(t, ({ url, headers }, response) => {
    response.writeHead(403, { 'content-type': 'text/plain' }).end(`${url} ${JSON.stringify(headers)}`);
  });
  const folder = t.testdir();
  const lake = { type: 'duckdb', path: join(folder, 'audiences.duckdb') };
  const readers = Object.entries(enginesAt(host)).map(
    ([name, each]) => [name, { ...each, snapshots: 'lake' }] as const,
  );
  const over = {
    store: `sqlite:${join(folder, 'rollcall.db')}`,
    engines: { lake, ...Object.fromEntries(readers) },
    audiences: readers.map(([engine]) => ({ name: engine, source: 'shop', engine, sql: "select 'u' as user_id" })),
    eventLog: {
      ...{ path: 's3://bucket/log', region: 'eu-central-1', endpoint: `http://${host}` },
      credentials: { keyId: 'key-id', secret: HUSH, token: HUSH },
    },
    alerts: {},
  };
  const service = await startService(t, over, { folder });
  const said: string[] = [];
  const failures = new Set<string>();
  const note = async (answer: Promise<Response>) => {
    const text = await (await answer).text();
    said.push(text);
    for (const [code] of text.matchAll(/engine_unreachable|bucket_failed/g)) failures.add(code);
  };
  for (const [engine] of readers) {
    const draft = { name: 'New', source: 'shop', engine, sql: "select 'u' as user_id" };
    await note(service.post(`${V1}/audiences/${engine}/sync?wait=true`));
    await note(service.ask(`${V1}/audiences/${engine}/plan`));
    await note(service.post(`${V1}/try`, { draft, parts: ['people'] }));
  }
  for (const path of ['runs', 'audiences', 'overview', 'alerts', 'audit', 'event-log', 'openapi.json'])
    await note(service.ask(`${V1}/${path}`));
  await note(service.post(`${V1}/event-log/verify`));
  await note(service.ask('/metrics'));
  t.ok(failures.has('engine_unreachable'));
  await service.app.close();
  const file = join(folder, 'rollcall.json');
  writeFileSync(file, JSON.stringify({ ...CONFIG, network: { allow: ['127.0.0.0/8'] }, ...over }));
  const commands = [
    ['doctor'],
    ['plan'],
    ['config', 'check', '--sql'],
    ['sync', '--once'],
    ['events', '--verify'],
    ['runs'],
  ];
  for (const command of commands) {
    const { stdout, stderr } = await rollcall([...command, '-c', file]);
    said.push(stdout, stderr);
  }
  t.match(said.join('\n'), /s3:\/\/bucket\/log\S* at http:\S+ failed: 403/);
  const all = [...said, ...service.lines].join('\n');
  const base64 = Buffer.from(`me:${HUSH}`).toString('base64');
  const forms = [
    HUSH,
    base64,
    'PRIVATE KEY',
    privateKey.split('\n')[3] ?? '',
    'Signature=',
    'assertion=',
    'KEYPAIR_JWT',
  ];
  for (const form of forms) {
    const at = all.indexOf(form);
    t.equal(at, -1, at < 0 ? form : all.slice(Math.max(0, at - 300), at + 80));
  }
});

t.test('sends credentials to no other server, whatever an answer names', async (t) => {
  let strayed = 0;
  const elsewhere = await answering(t, (_, response) => {
    strayed += 1;
    response.end('{}');
  });
  let asked = 0;
  const host = await answering(t, ({ url }, response) => {
    asked += 1;
    if (url !== '/v1/statement') response.writeHead(307, { location: `http://${elsewhere}${url}` }).end();
    else response.end(JSON.stringify({ stats: { state: 'RUNNING' }, nextUri: `http://${elsewhere}/next` }));
  });
  const { snowflake, google } = enginesAt(host);
  for (const config of [{ type: 'trino', url: `http://me@${host}/hive/shop` }, snowflake, google]) {
    const reader = await openReader(config as EngineConfig, { folder: '.' });
    t.teardown(() => reader.close());
    const before = asked;
    await t.rejects(reader.query({ sql: "select 'u' as user_id", now: 0 }), { code: 'engine_unreachable' });
    t.ok(asked > before, config.type);
  }
  const at = { bucket: 'bucket', prefix: 'log', endpoint: `http://${host}`, region: 'eu-central-1' };
  const bucket = new Bucket({
    ...at,
    credentials: { keyId: 'key', secret: HUSH, token: null },
    cacheBytes: 0,
  });
  await t.rejects(bucket.text('log.json'), { code: 'bucket_failed', message: /failed: 307/ });
  t.equal(strayed, 0);
});
