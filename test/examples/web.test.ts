import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { createApp } from '../../examples/web/app.ts';
import { loadConfig } from '../../src/config/load.ts';
import { startService } from '../collect/service.ts';

const folder = join(import.meta.dirname, '../../examples/web');

t.test('the pages, their configuration and their receiver belong together', async (t) => {
  const { sources, destinations, listen } = loadConfig(join(folder, 'rollcall.yaml'));
  const [source] = sources;
  const rollcall = `http://${listen.host}:${listen.port}`;
  const libraries = t.testdir();
  for (const [path, file] of [
    ['@segment/analytics-next/dist/umd', 'index.js'],
    ['@rudderstack/analytics-js/dist/npm/modern/bundled/umd', 'index.js'],
  ] as const) {
    mkdirSync(join(libraries, path), { recursive: true });
    writeFileSync(join(libraries, path, file), '// the library');
  }
  const got: object[] = [];
  const app = createApp({ rollcall: 'http://rollcall.test', libraries, onWebhook: (body) => got.push(body) });
  t.teardown(() => app.close());
  for (const name of ['segment', 'rudder']) {
    const page = (await app.inject({ url: `/${name}` })).body;
    t.match(page, `'${source?.writeKey}'`, name);
    t.match(page, "rollcall = 'http://rollcall.test'", 'its one address');
    t.equal(page.match(/https?:\/\//g)?.length, 1);
    t.match((await app.inject({ url: `/${name}.js` })).body, '// the library');
  }
  t.match(destinations[0]?.endpoints[0]?.url, /:3000\/hooks$/);
  await app.inject({ method: 'POST', url: '/hooks', payload: { type: 'page' } });
  t.same(got, [{ type: 'page' }]);
  const service = startService(t, { sources: () => sources });
  const settings = await service.app.inject({
    url: `/v1/projects/${source?.writeKey}/settings`,
    headers: { host: URL.parse(rollcall)?.host ?? '' },
  });
  t.match(settings.json().integrations['Segment.io'], { apiHost: '127.0.0.1:8080/v1', protocol: 'http' });
});
