import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { createApp } from '../../examples/web/app.ts';
import { startApp, writeConfig } from '../collect/running.ts';
import { launchBrowser, withoutBrowser } from '../helpers/chromium.ts';

const libraries = join(import.meta.dirname, 'node_modules');
const missing = [
  ...(withoutBrowser ? [withoutBrowser] : []),
  ...(existsSync(join(libraries, '@segment/analytics-next'))
    ? []
    : ['the libraries are not installed: npm run test:sdks']),
];

/** So many times as slow, the library has sent nothing yet when the page is gone, unless that is waited for. */
const SLOWER = 20;

type Body = Record<string, unknown>;

/** The pages and their receiver, beside the whole service; `arrived` resolves to the first webhook of a kind. */
async function start(t: Test) {
  const bodies: Body[] = [];
  let told = () => {};
  const options = {
    rollcall: '',
    libraries,
    onWebhook: (body: Body) => {
      bodies.push(body);
      told();
    },
  };
  const inbox = createApp(options);
  t.teardown(() => inbox.close());
  const hooks = { url: `${await inbox.listen({ port: 0, host: '127.0.0.1' })}/hooks`, webhooks: [], status: 200 };
  const config = writeConfig(t, { ...hooks, arrived: async () => {} }, { web: { connected: true } });
  const service = await startApp(t, config);
  const pages = createApp({ ...options, rollcall: service.address });
  t.teardown(() => pages.close());
  const arrived = async (type: string, event?: string): Promise<Body> => {
    for (;;) {
      const found = bodies.find((body) => body['type'] === type && (event === undefined || body['event'] === event));
      if (found) return found;
      await new Promise<void>((resolve) => (told = resolve));
    }
  };
  return { bodies, arrived, service: service.address, pages: await pages.listen({ port: 0, host: '127.0.0.1' }) };
}

/** Opens a page, and notes which hosts it asks and what goes wrong in it. */
async function open(t: Test, browser: Browser, url: string) {
  const context = await browser.newContext();
  t.teardown(() => context.close());
  const page = await context.newPage();
  const hosts = new Set<string>();
  const errors: string[] = [];
  context.on('request', (request) => hosts.add(new URL(request.url()).origin));
  page.on('console', (message) => message.type() === 'error' && errors.push(message.text()));
  page.on('pageerror', (error) => errors.push(String(error)));
  await page.goto(url);
  return { page, hosts, errors };
}

async function checkPage(t: Test, browser: Browser, path: string, leave: (page: Page) => Promise<void>) {
  const { bodies, arrived, pages, service } = await start(t);
  const { page, hosts, errors } = await open(t, browser, `${pages}/${path}`);
  const [viewed, identified] = [await arrived('page'), await arrived('identify')];
  t.match(viewed, {
    name: 'Shop',
    properties: { url: `${pages}/${path}`.replace(/#.*/, '') },
    context: { ip: '127.0.0.1' },
  });
  t.match(identified, { userId: 'u1', traits: { plan: 'pro' }, anonymousId: viewed['anonymousId'] });
  await page.click('#buy');
  t.match(await arrived('track', 'Order Completed'), { userId: 'u1', properties: { total: 39.95 }, messageId: String });
  await leave(page);
  t.match(await arrived('track', 'Left'), { userId: 'u1' });
  t.equal(new Set(bodies.map(({ messageId }) => messageId)).size, bodies.length, 'each once');
  t.same([...hosts].toSorted(), [pages, service].toSorted(), 'nobody else is asked');
  t.same(errors, []);
}

t.test('the pages of examples/web', { skip: missing.join('; ') || false }, async (t) => {
  const browser = await launchBrowser();
  t.teardown(() => browser.close());
  const leave = (page: Page) => page.click('#leave');
  await t.test('analytics-next, left on a slow device', (t) =>
    checkPage(t, browser, 'segment', async (page) => {
      const session = await page.context().newCDPSession(page);
      await session.send('Emulation.setCPUThrottlingRate', { rate: SLOWER });
      await leave(page);
    }),
  );
  await t.test('Rudder', (t) => checkPage(t, browser, 'rudder', leave));
  await t.test('Rudder by beacon', (t) => checkPage(t, browser, 'rudder#beacon', leave));
});
