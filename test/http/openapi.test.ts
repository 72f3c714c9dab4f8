import { gunzipSync } from 'node:zlib';
import { pino } from 'pino';
import t from 'tap';
import { documents } from '../../src/admin/documents.ts';
import { collect } from '../../src/collect/collect.ts';
import { regulations } from '../../src/deletion/routes.ts';
import { openApi } from '../../src/http/openapi.ts';
import { createHttpServer } from '../../src/http/server.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { RollcallError } from '../../src/kernel/errors.ts';

async function documented(guard = async () => {}) {
  const app = createHttpServer(pino({ level: 'silent' }), { alive: () => {}, ready: async () => {} });
  await app.register(openApi, { serviceName: 'Rollcall', version: '1.2.3' });
  await app.register(collect, { sources: () => [], accept: async () => {}, clock: systemClock });
  await app.register(regulations, {
    guard: async () => {},
    hasSource: () => false,
    fileRegulation: async () => '',
    findRegulation: async () => null,
  });
  await app.register(documents, { guard });
  await app.ready();
  return app;
}

t.test('documents every route and field that people write against', async (t) => {
  const app = await documented();
  t.teardown(() => app.close());
  const document = (await app.inject({ url: '/docs/json' })).json();
  t.match(document, { openapi: '3.1.0', info: { title: 'Rollcall', version: '1.2.3' } });
  t.strictSame(Object.keys(document.paths).toSorted(), [
    ...['/regulations', '/regulations/sources/{id}', '/regulations/{id}', '/sourceConfig/'],
    ...['/v1/alias', '/v1/batch', '/v1/group', '/v1/identify', '/v1/page'],
    ...['alias', 'group', 'identify', 'page', 'screen', 'track'].map((type) => `/v1/pixel/${type}`),
    ...['/v1/projects/{key}/settings', '/v1/screen', '/v1/track'],
  ]);
  const body = (path: string) => document.paths[path].post.requestBody.content['application/json'].schema;
  t.match(body('/v1/track'), { type: 'object', properties: { event: { type: 'string' } }, required: ['event'] });
  t.match(body('/v1/batch').properties.batch, { type: 'array', minItems: 1, maxItems: 2_500 });
  t.equal(body('/v1/batch').properties.batch.items.oneOf.length, 6);
  t.match(body('/regulations').properties.subjectIds, { maxItems: 5_000 });
  t.same(Object.keys(document.paths['/v1/batch'].post.responses), ['200', '400', '401', '403', '429', '503']);
});

t.test('serves the page to read it without other hosts', async (t) => {
  const app = await documented();
  t.teardown(() => app.close());
  const page = await app.inject({ url: '/docs/' });
  t.equal(page.statusCode, 200);
  t.match(page.headers['content-security-policy'], "default-src 'self'");
  const addresses = [...page.body.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, address = '']) => address);
  t.ok(addresses.length > 2);
  for (const address of addresses) {
    t.notMatch(address, /^(https?:)?\/\//, address);
    t.equal((await app.inject({ url: new URL(address, 'http://a/docs/').pathname })).statusCode, 200, address);
  }
});

t.test('makes each document once, compressed, and only for callers with a right', async (t) => {
  let isAllowed = true;
  const app = await documented(async () => {
    if (!isAllowed) throw new RollcallError('unauthorized', 'Send an admin token.');
  });
  t.teardown(() => app.close());
  const headers = { 'accept-encoding': 'gzip' };
  const paths = ['/docs', '/docs/', '/docs/json', '/docs/yaml', '/docs/swagger-ui-bundle.js'];
  for (const url of paths) {
    const [plain, zipped] = [await app.inject({ url }), await app.inject({ url, headers })];
    t.equal(zipped.headers['content-encoding'], 'gzip', url);
    t.ok(gunzipSync(zipped.rawPayload).equals(plain.rawPayload), url);
  }
  isAllowed = false;
  for (const url of paths) t.equal((await app.inject({ url, headers })).statusCode, 401, url);
});
