import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { DEFAULT_LIMITS } from '../../src/collect/limits.ts';
import { loadConfig } from '../../src/config/load.ts';
import { regulations } from '../../src/deletion/routes.ts';
import { defaultLimits } from '../../src/http/edge.ts';
import { startService } from './service.ts';

const text = readFileSync(new URL('../../docs/collection.md', import.meta.url), 'utf8');
const [batch, answer, deletion] = [...text.matchAll(/```json\n(.*?)```/gs)].map(([, json = '']) => JSON.parse(json));

t.test('answers the documented batch as documented', async (t) => {
  const { app, accepted } = startService(t);
  const reply = await app.inject({ method: 'POST', url: '/v1/batch', payload: batch });
  t.equal(reply.statusCode, 200);
  t.strictSame(reply.json(), answer);
  t.match(JSON.parse(accepted[0]?.messages[0]?.body ?? ''), { event: 'Order Completed', context: batch.context });
});

t.test('has the documented paths', async (t) => {
  const { app } = startService(t);
  const [, posts = ''] = /## Requests\n\n```\n(.*?)```/s.exec(text) ?? [];
  const paths = new Set(posts.match(/\/v1\/\w+/g));
  t.equal(paths.size, 15);
  for (const url of paths) t.not((await app.inject({ method: 'POST', url, payload: {} })).statusCode, 404, url);
  const asked = [...text.matchAll(/\| `GET (\/\S+?)(?:\?\S+)?` \|/g)].map(([, path = '']) => path);
  t.equal(asked.length, 3);
  for (const url of asked) t.not((await app.inject({ url })).statusCode, 404, url);
});

t.test('sees the users’ own addresses behind the documented proxy', async (t) => {
  const [yaml = ''] = [...text.matchAll(/```yaml\n(listen:.*?)```/gs)].map(([, block = '']) => block);
  const file = join(t.testdir({}), 'rollcall.yaml');
  writeFileSync(file, `${yaml}\nsources: [{ id: shop, writeKey: WK_shop }]`);
  const { listen } = loadConfig(file);
  const { app, accepted } = startService(t, { trustedProxies: listen.trustedProxies });
  const headers = { 'x-forwarded-for': '203.0.113.7', 'x-forwarded-proto': 'https', host: 'events.example.com' };
  const asked = await app.inject({ url: '/v1/projects/WK_shop/settings', headers });
  t.match(asked.json().integrations['Segment.io'], { apiHost: 'events.example.com/v1', protocol: 'https' });
  const payload = { userId: 'u', event: 'e', writeKey: 'WK_shop' };
  await app.inject({ method: 'POST', url: '/v1/t', payload, headers });
  t.equal(JSON.parse(accepted[0]?.messages[0]?.body ?? '').context.ip, '203.0.113.7');
});

t.test('accepts the documented deletion request', async (t) => {
  const { app } = startService(t);
  app.register(regulations, {
    guard: async () => {},
    hasSource: () => true,
    fileRegulation: async () => 'r1',
    findRegulation: async () => null,
  });
  const reply = await app.inject({ method: 'POST', url: '/regulations', payload: deletion });
  t.strictSame(reply.json(), { data: { regulateId: 'r1' } });
});

t.test('has the documented limits', async (t) => {
  const { callBytes, batchBytes, batchMessages } = DEFAULT_LIMITS;
  for (const limit of [callBytes, batchBytes, batchMessages, 4 * batchBytes]) {
    t.match(text, limit.toLocaleString('en-US'));
  }
  const { connections, pipelined, pendingBytes, strangerBytes, unreadBytes } = defaultLimits();
  for (const limit of [2_048, pipelined]) t.match(text, limit.toLocaleString('en-US'));
  t.equal(connections, 2_048, 'where a process may open twice as many files');
  for (const bytes of [pendingBytes, strangerBytes, unreadBytes]) t.match(text, `${bytes / 1024 / 1024} MiB`);
});
