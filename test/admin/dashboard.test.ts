import { existsSync } from 'node:fs';
import { pino } from 'pino';
import { chromium } from 'playwright-core';
import t, { type Test } from 'tap';
import { App } from '../../src/app.ts';
import { parseConfig } from '../../src/config/load.ts';

const CHROMIUM = '/usr/bin/chromium';

async function startApp(t: Test, token?: string): Promise<string> {
  const config = {
    store: 'sqlite::memory:',
    listen: { host: '127.0.0.1', port: 0 },
    ...(token === undefined ? {} : { admin: { token } }),
    sources: [{ id: 'shop', writeKey: 'key' }],
    destinations: [
      { name: 'crm', sources: ['shop'], webhooks: [{ url: 'http://user:word@127.0.0.1:9/hook?token=hidden' }] },
    ],
    audiences: [{ name: 'Regulars', source: 'shop', schedule: '0 3 * * *', sql: "select '<b>u1</b>' as user_id" }],
    engines: { lake: { type: 'duckdb', path: `${t.testdir()}/audiences.duckdb` } },
  };
  const parsed = parseConfig(JSON.stringify(config), { file: 'rollcall.yaml', folder: t.testdirName, env: {} });
  const app = await App.create(parsed, { log: pino({ level: 'silent' }) });
  t.teardown(() => app.close());
  await app.start({ collect: true, schedules: false });
  await app.sync.run();
  return app.address as string;
}

t.test('the dashboard shows endpoints, audiences, runs and dead letters, and no secret', async (t) => {
  const address = await startApp(t);
  await untilDead(address);
  const response = await fetch(`${address}/`);
  const html = await response.text();
  t.equal(response.status, 200);
  t.match(response.headers.get('content-security-policy'), /^default-src 'none'/);
  t.match(html, /&lt;b&gt;u1&lt;\/b&gt;/, 'ids are escaped');
  t.match(html, 'regulars');
  t.match(html, 'address_refused');
  t.notMatch(html, /word|hidden|token=/, 'nothing of user, password or query');
});

t.test('with a token the dashboard asks for it as a password', async (t) => {
  const address = await startApp(t, 'secret-token');
  const refused = await fetch(`${address}/`);
  t.equal(refused.status, 401);
  t.match(refused.headers.get('www-authenticate'), /^Basic /);
  const status = async (authorization: string) => (await fetch(`${address}/`, { headers: { authorization } })).status;
  t.equal(await status(`Basic ${btoa('me:secret-token')}`), 200);
  t.equal(await status('Bearer secret-token'), 200);
  t.equal(await status(`Basic ${btoa('me:wrong')}`), 401);
  const api = await fetch(`${address}/api/endpoints`, {
    headers: { authorization: `Basic ${btoa('me:secret-token')}` },
  });
  t.equal(api.status, 401, 'what a browser sends along unasked opens nothing but the page');
});

t.test('a browser shows it', { skip: existsSync(CHROMIUM) ? false : 'chromium is not installed' }, async (t) => {
  const address = await startApp(t);
  const browser = await chromium.launch({
    executablePath: CHROMIUM,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
  });
  t.teardown(() => browser.close());
  const page = await browser.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => complaints.push(message.text()));
  await page.goto(`${address}/`);
  t.equal(await page.locator('h1').textContent(), 'Rollcall 0.1.0');
  t.same(await page.locator('h2').allInnerTexts(), ['Endpoints', 'Audiences and traits', 'Last runs', 'Dead letters']);
  t.not(
    await page.locator('td').first().evaluate('(cell) => getComputedStyle(cell).borderBottomWidth'),
    '0px',
    'styled',
  );
  t.same(complaints, [], 'its own content security policy lets it through');
  if (process.env['SCREENSHOT']) await page.screenshot({ path: process.env['SCREENSHOT'], fullPage: true });
});

/** The only delivery goes to a loopback address, which nothing allows. */
async function untilDead(address: string): Promise<void> {
  for (;;) {
    const metrics = await (await fetch(`${address}/metrics`)).text();
    if (/rollcall_dead_letters\{.*\} 1/.test(metrics)) return;
  }
}
