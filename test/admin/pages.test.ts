import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Browser } from 'playwright-core';
import t, { type Test } from 'tap';
import { minified } from '../../scripts/minified.ts';
import { readPageFiles } from '../../src/admin/page-files.ts';
import { PAGE_LISTS, PAGES } from '../../src/admin/page-lists.ts';
import { parseConfig } from '../../src/config/load.ts';
import { AS_ADMIN } from '../helpers/admin.ts';
import { launchBrowser, withoutBrowser } from '../helpers/chromium.ts';
import { until } from '../helpers/until.ts';
import { axeFindings, settled, type Visit, visit } from './browser.ts';
import { type Estate, people, startEstate } from './estate.ts';
import { questions } from './questions.ts';

const HOME = join(import.meta.dirname, '../../src/admin/pages');

/** Pages in the navigation. */
const PLACES = PAGES.filter(({ title }) => title !== undefined).map(({ path }) => path);

t.test('sends a browser at most 75 kB, and the package 70', async (t) => {
  const { index, files } = readPageFiles();
  const sum = (all: readonly Buffer[]) => all.reduce((total, { length }) => total + length, 0);
  const plain = sum([index, ...files.values()].map(({ gzip }) => gzip));
  t.ok(plain < 75_000, `${plain} bytes in ${files.size + 1} files`);
  const small = [...files].map(([name, { plain, gzip }]) =>
    /\.(js|css)$/.test(name) ? gzipSync(minified(name, String(plain)), { level: 9 }) : gzip,
  );
  t.ok(sum([index.gzip, ...small]) < 70_000, `${sum([index.gzip, ...small])} bytes in the package`);
});

t.test('serves scripts as they are written, but for comments and line ends', async (t) => {
  const bare = (name: string, text: string) =>
    minified(name, text)
      .replaceAll(/\s/g, '')
      .replaceAll(/from["'][^"']*["']/g, '');
  const { files } = readPageFiles();
  for (const name of globSync('{,views/}*.js', { cwd: HOME })) {
    t.equal(bare(name, String(files.get(name)?.plain)), bare(name, readFileSync(join(HOME, name), 'utf8')), name);
  }
});

t.test('tells newcomers what a configuration takes', async (t) => {
  const { sources, destinations, audiences } = PAGE_LISTS.EXAMPLES;
  const text = `${sources}\n  - { id: personas, writeKey: another-key }\n${destinations}\nengines: { lake: { type: duckdb } }\n${audiences}`;
  const env = { SHOP_WRITE_KEY: 'a-write-key', CRM_SECRET: 'a-secret' };
  const config = parseConfig(text, { file: 'rollcall.yaml', folder: t.testdir(), env });
  t.match(config, { destinations: [{ name: 'crm' }], audiences: [{ key: 'big_spenders' }] });
});

t.test('each page has a view, and each view a page', async (t) => {
  const { files } = readPageFiles();
  const views = [...files.keys()].filter((path) => path.startsWith('views/'));
  t.same(views, [...new Set(PAGES.map(({ view }) => `views/${view}.js`))].toSorted());
  for (const view of views) t.match(String(files.get(view)?.plain), /^export default function /m, view);
});

t.test('imports only existing files, and makes no markup of text', async (t) => {
  const { index, hash, files } = readPageFiles();
  for (const [name, { plain }] of files) {
    for (const [, wanted = ''] of String(plain).matchAll(/\bfrom\s*['"]([^'"]+)['"]/g)) {
      t.ok(/^\.\.?\//.test(wanted) && files.has(join(name, '..', wanted)), `${name} imports ${wanted}`);
    }
  }
  for (const [, path = ''] of String(index.plain).matchAll(/(?:src|href)="([^"]+)"/g)) {
    const folder = `/pages/${hash}/`;
    t.ok(path.startsWith(folder) && files.has(path.slice(folder.length)), path);
  }
  const own = globSync('{,views/}*.js', { cwd: HOME });
  t.ok(own.length > 15);
  for (const file of own) {
    const text = readFileSync(join(HOME, file), 'utf8');
    t.notMatch(text, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/, file);
  }
});

t.test('takes no first page of a list for all of it', async (t) => {
  const estate = await startEstate(t.testdir(), { empty: true });
  t.teardown(() => estate.close());
  const { paths } = (await (
    await fetch(`${estate.address}/api/v1/openapi.json`, { headers: AS_ADMIN })
  ).json()) as Paths;
  const lists = Object.entries(paths).flatMap(([path, { get }]) =>
    get?.responses['200']?.content?.['application/json']?.schema?.properties?.['next'] ? [path.replace(V1, '')] : [],
  );
  t.ok(lists.length > 10, `${lists.length} lists`);
  const { files } = readPageFiles();
  for (const [name, { plain }] of files) {
    const asked = [...String(plain).matchAll(/\b(?:useData|get)\((?:addressOf\()?['"`](\/[\w/-]*)/g)].map(
      ([, path]) => path,
    );
    t.same(
      asked.filter((path) => lists.includes(path ?? '')),
      [],
      `${name} gets lists by useRows or useAll`,
    );
  }
});

interface Paths {
  paths: Record<
    string,
    {
      get?: {
        responses: Record<string, { content?: Record<string, { schema?: { properties?: Record<string, unknown> } }> }>;
      };
    }
  >;
}
const V1 = '/api/v1';

const isRefusing = async ({ app }: Estate, name: string) =>
  (await app.store.endpoints()).some(({ destination, refusal }) => destination === name && Boolean(refusal?.since));

/** A service in which everything that can go wrong has. */
async function troubled(t: Test): Promise<Estate> {
  const estate = await startEstate(t.testdir());
  t.teardown(() => estate.close());
  const { app, spenders } = estate;
  await app.sync.run();
  spenders(people(3, 66));
  await app.sync.run(['big_spenders']);
  spenders(people(60, 66));
  await app.sync.run(['big_spenders']);
  const orders = people(0, 25).map((userId) => ({ type: 'track', event: 'Order Completed', userId }));
  await estate.send([...orders, { type: 'track', userId: 'u1' }]);
  await until(async () => {
    const states = new Map((await app.store.endpoints()).map((state) => [state.destination, state]));
    const dead = (await app.store.deadLetters({ limit: 1 })).length > 0;
    return dead && (states.get('old')?.pausedAt ?? null) !== null && (await isRefusing(estate, 'ads'));
  });
  return estate;
}

t.test('serves the files', async (t) => {
  const estate = await startEstate(t.testdir(), { empty: true });
  t.teardown(() => estate.close());
  for (const path of [...PLACES, '/audiences/big_spenders/members/u%2F1', '/sign-in']) {
    const response = await fetch(estate.address + path);
    t.equal(response.status, 200, path);
    t.equal(response.headers.get('cache-control'), 'no-cache');
    const policy = response.headers.get('content-security-policy') ?? '';
    t.match(policy, /default-src 'none'.*require-trusted-types-for 'script'/);
    t.notMatch(policy, /unsafe|\*|http/);
    t.notMatch(await response.text(), /<script>|style=|onclick/);
  }
  const [, path = ''] = /src="(\/pages\/[^"]+main\.js)"/.exec(await (await fetch(estate.address)).text()) ?? [];
  const file = await fetch(estate.address + path);
  t.match(file.headers.get('cache-control'), 'immutable');
  t.equal(file.headers.get('content-encoding'), 'gzip');
  t.match(await file.text(), /render\(/);
  const plain = await fetch(estate.address + path, { headers: { 'accept-encoding': 'identity' } });
  t.equal(plain.headers.get('content-encoding'), null);
  const old = await fetch(`${estate.address}/pages/000000000000/main.js`);
  t.match(await old.json(), { code: 'not_found' });
});

t.test('in a browser', { skip: withoutBrowser }, async (t) => {
  const browser = await launchBrowser();
  t.teardown(() => browser.close());

  await t.test('with everything in trouble', async (t) => {
    const estate = await troubled(t);
    const desk = await visit(t, browser, estate.address);
    await t.test('the overview lists concerns, and links to them', (t) => overview(t, desk, estate));
    await t.test('a deletion shows who asked for it and who confirmed it', (t) => deletions(t, desk, estate));
    await t.test('answers each question of an operator in three clicks', async (t) => {
      await questions(t, desk);
      // It was tried again.
      await until(() => isRefusing(estate, 'ads'));
    });
    await t.test('each page is complete, for people and for machines', (t) => everyPage(t, desk, PLACES));
    await t.test('works on a phone, in dark mode', async (t) => {
      const size = { width: 390, height: 844 };
      const phone = await visit(t, browser, estate.address, { viewport: size, colorScheme: 'dark' });
      await everyPage(t, phone, ['/', '/dead-letters']);
    });
    await t.test('shows and approves a held run', (t) => held(t, desk, estate));
    await t.test('plans, runs and resyncs an audience, and retires it only with its name', (t) => orders(t, desk));
    await t.test('the story of a person shows which destinations know', (t) => story(t, desk));
    await t.test('a trait has its values, and what each destination knows', (t) => trait(t, desk));
    await t.test('prints what there is to read', (t) => prints(t, desk));
    await t.test('is not white before the session is known', (t) => begins(t, desk));
    await t.test('shows charts of each range, for eyes, keys and as a table', (t) => charts(t, desk, estate));
    await t.test('tests, pauses and resumes an endpoint', (t) => endpoint(t, desk, estate));
    await t.test('finds, shows and resends a message', (t) => messages(t, desk, estate));
    await t.test('chooses, replays and drops dead letters', (t) => letters(t, desk, estate));
    await t.test('shows the event log', (t) => eventLog(t, desk));
    await t.test('shows who enters a live audience', (t) => liveAudience(t, desk, estate));
    await t.test('keeps typed text when the page is redrawn', (t) => typing(t, desk));
    await t.test('handles links, going back and focus', (t) => ways(t, desk));
    await t.test('reports a lost service, and keeps showing the last data', (t) => gone(t, desk, estate));
  });

  await t.test('signs in and out with tokens, and respects their rights', async (t) => {
    const tokens = [
      { name: 'ops', token: 'the-token-of-ops', may: ['read', 'operate'] },
      { name: 'eyes', token: 'the-token-of-eyes', may: ['read'] },
    ];
    const many = { admin: { tokens }, destinations: 1_000, audiences: 300 };
    const estate = await startEstate(t.testdir(), many);
    t.teardown(() => estate.close());
    const desk = await visit(t, browser, estate.address, { token: null });
    await signInByLink(t, browser, estate);
    await signIn(t, desk);
    await manyNeeds(t, desk, estate);
  });

  await t.test('empty', async (t) => {
    const estate = await startEstate(t.testdir(), { empty: true });
    t.teardown(() => estate.close());
    const desk = await visit(t, browser, estate.address);
    await desk.go('/');
    // The workbench begins with a draft.
    for (const path of PLACES.filter((place) => place !== '/try')) {
      await desk.show(path);
      t.ok(await desk.page.locator('.empty').count(), path);
    }
    await desk.show('/endpoints');
    t.equal(await desk.page.locator('.empty pre').textContent(), PAGE_LISTS.EXAMPLES.destinations);
    t.same(desk.complaints, []);
  });
});

async function messages(t: Test, { page, show, complaints }: Visit, { app, send }: Estate): Promise<void> {
  await send({ type: 'track', event: 'Page Printed', userId: 'somebody', messageId: 'printed' });
  // The page does not search again by itself.
  const isDelivered = { messageId: 'printed', destination: 'crm', outcome: 'success' } as const;
  await until(async () => (await app.store.attempts({ ...isDelivered, limit: 1 })).length > 0);
  await show('/messages');
  await page.getByLabel('Event').fill('Page Printed');
  await page.getByLabel('State').selectOption('delivered');
  const row = page.locator('tbody tr', { hasText: /Page Printed.*crm.*delivered/s });
  await page.waitForURL(/event=Page\+Printed&state=delivered/);
  await row.waitFor();
  t.match(await row.innerText(), /Page Printed.*somebody.*shop.*crm.*delivered/s);
  await row.getByRole('link').click();
  const body = page.locator('pre', { hasText: '"Page Printed"' });
  await body.waitFor();
  t.match(await page.getByRole('table', { name: /Attempts/ }).innerText(), /crm.*success.*200 unhandled/s);
  t.same(await axeFindings(page), []);
  await page.getByRole('button', { name: 'Send again to crm' }).click();
  await page.getByText('Queued again for crm.').waitFor();
  t.same(complaints, []);
}

async function charts(t: Test, { page, show, complaints }: Visit, { app }: Estate): Promise<void> {
  const minute = 60_000;
  const now = Date.now();
  const all = { subject: 'all', name: '' } as const;
  for (const n of [3, 2, 1]) {
    await app.store.addHistory(now - n * minute, [
      { ...all, counts: { accepted: 1e6 * n, delivered: 9e5 * n }, took: [0, 9], pending: 7 * n, oldest: 2_000 },
      { subject: 'audience', name: 'big_spenders', members: 100 + n, counts: { runs: 1 } },
    ]);
  }
  await show('/');
  const passed = page.getByRole('group', {
    name: /^Messages and deliveries per minute.*accepted: now .*highest 3M; delivered: /s,
  });
  await passed.waitFor();
  const figure = page.locator('figure', { has: passed });
  const before = await figure.boundingBox();
  await passed.focus();
  await page.keyboard.press('End');
  // A minute may end meanwhile, and the service adds what it counts itself.
  let legend = await figure.locator('.legend').innerText();
  for (let n = 0; n < 6 && !/accepted 2M/.test(legend); n += 1) {
    await page.keyboard.press('ArrowLeft');
    legend = await figure.locator('.legend').innerText();
  }
  t.match(legend, /accepted 2M.*delivered 1.8M/s);
  t.match(await figure.locator('[aria-live]').innerText(), /accepted 2M, delivered 1.8M, retried \d+, dead \d+/);
  t.same((await figure.boundingBox())?.height, before?.height, 'nothing moves');
  await figure.getByText('Table').click();
  const rows = figure.getByRole('table').getByRole('row');
  await rows.first().waitFor();
  t.match(await rows.allInnerTexts(), [/When.*accepted/s]);
  t.ok((await rows.allInnerTexts()).some((text) => /3M.*2.7M/s.test(text)));
  t.same(await axeFindings(page), []);
  await page.getByRole('button', { name: '7 days' }).click();
  await page.getByRole('group', { name: /^Messages and deliveries per hour/ }).waitFor();
  t.equal(new URL(page.url()).search, '?step=hour');
  await show('/audiences/big_spenders?step=minute');
  await page.getByRole('group', { name: /^Members\. members: now \d+, lowest \d+, highest 103/ }).waitFor();
  t.same(complaints, []);
}

async function overview(t: Test, { page, go, complaints }: Visit, { address }: Estate): Promise<void> {
  await go('/');
  t.match(await page.locator('h1').innerText(), /things need you/);
  const needs = page.getByRole('list', { name: 'What needs a person' }).getByRole('listitem');
  const texts = await needs.allInnerTexts();
  for (const expected of [/big_spenders is held/, /broken failed/, /ads refuses everything/, /old is paused/]) {
    t.ok(
      texts.some((text) => expected.test(text)),
      String(expected),
    );
  }
  // At one moment: more may come to need a person.
  const [count, listed] = (await page.evaluate(
    "[parseInt(document.querySelector('nav .count').textContent), document.querySelectorAll('.needs li').length]",
  )) as number[];
  t.equal(count, listed);
  await page.locator('#icon[href*="icon-alert.svg"]').waitFor({ state: 'attached' });
  await needs.filter({ hasText: /big_spenders is held.*announced/ }).waitFor();
  await needs.filter({ hasText: /old is paused.*announced/ }).waitFor();
  await needs.filter({ hasText: 'big_spenders' }).getByRole('link', { name: 'Decide' }).click();
  await page.getByText('waits for you').waitFor();
  t.equal(page.url(), `${address}/audiences/big_spenders`);
  t.same(complaints, []);
}

/**
 * None complains, none scrolls sideways, none shows a secret.
 *
 * @param searched - pages of a list that are searched for serious faults, beside those of one thing
 */
async function everyPage(t: Test, { page, go, show, complaints }: Visit, searched: readonly string[]): Promise<void> {
  await go('/');
  const endpoint = await linkOn(page, show, '/endpoints', 'ads');
  const message = await linkOn(page, show, '/dead-letters', 'track');
  const further = [
    '/audiences/big_spenders',
    '/audiences/big_spenders/members/user-0010',
    '/people/user-0010',
    '/audiences/broken',
  ];
  for (const path of [...PLACES, ...further, endpoint, message, '/audiences/nobody', '/messages?userId=nobody']) {
    await show(path);
    if (searched.includes(path) || !PLACES.includes(path)) t.same(await axeFindings(page), [], path);
    const [width, room] = (await page.evaluate('[document.documentElement.scrollWidth, innerWidth]')) as number[];
    t.ok((width as number) <= (room as number), `${path} is ${width} wide on ${room}`);
    t.notMatch(await page.content(), /hidden-too|token=hidden|a-secret-that-no-page-shows/, path);
  }
  const expected = complaints.filter((text) => /status of 404/.test(text));
  t.same(complaints, expected, 'nothing but what is not there');
  complaints.length = 0;
}

async function linkOn(page: Visit['page'], show: Visit['show'], path: string, name: string): Promise<string> {
  await show(path);
  return (await page.locator('tbody').getByRole('link', { name, exact: true }).first().getAttribute('href')) ?? '';
}

const FOCUSED = 'document.activeElement.tagName';

async function held(t: Test, { page, show }: Visit, { app }: Estate): Promise<void> {
  await show('/audiences/big_spenders');
  await page.getByRole('link', { name: '0 would enter, 57 would leave' }).first().click();
  await page.getByRole('heading', { name: 'Who would enter and leave' }).waitFor();
  await page.getByRole('link', { name: 'user-0010' }).waitFor();
  await page.getByLabel('Show').selectOption('entered');
  await page.getByText('Nobody.').waitFor();
  await page.getByLabel('Show').selectOption('exited');
  await page.getByRole('link', { name: 'user-0010' }).waitFor();
  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save as CSV' }).click();
  const file = readFileSync(await (await download).path(), 'utf8').split('\r\n');
  t.equal(file.length, 59, 'a header, 57 changes and the end');
  t.match(file, ['user_id,change,traits', '"user-0003","exited"']);
  await show('/audiences/big_spenders');
  await page.getByRole('button', { name: 'Approve…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Approve this run?' });
  t.match(await dialog.innerText(), /0 entered, 57 exited.*6 members; it has 63 now/s);
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  t.equal((await app.store.runs({ key: 'big_spenders', limit: 1 }))[0]?.state, 'held', 'Escape does nothing');
  await page.getByRole('button', { name: 'Approve…' }).click();
  await dialog.getByRole('button', { name: 'Approve and send' }).click();
  await page.getByRole('status').getByText('Approved').waitFor();
  await page.getByText('waits for you').waitFor({ state: 'detached' });
  t.equal(await page.evaluate(FOCUSED), 'H1', 'the button is gone');
  await page.locator('.figures').getByText('6', { exact: true }).waitFor();
  t.equal((await app.store.runs({ key: 'big_spenders', limit: 1 }))[0]?.state, 'done');
}

async function orders(t: Test, { page, show }: Visit): Promise<void> {
  await show('/audiences/newsletter');
  await page.getByRole('button', { name: 'Plan' }).click();
  const plan = page.getByRole('region', { name: 'Plan' });
  t.match(await plan.innerText(), /A run now would send 0 messages/);
  const rows = page.getByRole('table', { name: 'Runs, newest first' }).locator('tbody tr');
  t.equal(await rows.count(), 1);
  await page.getByRole('button', { name: 'Run now' }).click();
  await rows.nth(1).waitFor();
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByRole('dialog', { name: 'Pause newsletter?' }).getByRole('button', { name: 'Pause' }).click();
  await page.getByRole('heading', { name: 'Paused' }).waitFor();
  t.equal(await page.getByRole('button', { name: 'Run now' }).count(), 0);
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.getByRole('button', { name: 'Run now' }).waitFor();
  await page.getByRole('button', { name: 'Resync' }).click();
  await page.getByRole('button', { name: 'Send again' }).click();
  await rows.filter({ hasText: 'resync' }).filter({ hasText: 'done' }).waitFor();
  await page.getByRole('button', { name: 'Retire' }).click();
  const dialog = page.getByRole('dialog', { name: 'Retire newsletter?' });
  const retire = dialog.getByRole('button', { name: 'Retire' });
  t.equal(await retire.getAttribute('aria-disabled'), 'true', 'not before its name is typed');
  await dialog.getByRole('textbox').fill('newsletter');
  await retire.click();
  await page.getByRole('status').getByText('will be retired').waitFor();
  await rows.filter({ hasText: 'retire' }).filter({ hasText: 'done' }).waitFor();
}

async function story(t: Test, { page, show }: Visit): Promise<void> {
  await show('/audiences/big_spenders');
  await page.getByRole('searchbox').fill('user-0001');
  await page.keyboard.press('Enter');
  await settled(page);
  t.match(await page.locator('h1').innerText(), 'user-0001');
  const changes = page.locator('.story > li');
  await changes.nth(1).waitFor();
  t.match(await changes.allInnerTexts(), [/left/, /entered/], 'newest first');
  t.match(await changes.nth(1).innerText(), /crm was told/);
  await show('/people');
  await page.getByRole('searchbox').fill('user-0001');
  await page.keyboard.press('Enter');
  await page.locator('.story > li').filter({ hasText: 'left' }).first().waitFor();
  t.match(await page.locator('article').first().innerText(), /not a member[\s\S]*left[\s\S]*crm was told/);
  await show('/audiences/big_spenders/members/nobody%2Fever');
  t.match(await page.locator('.empty').first().innerText(), /nobody\/ever was never in big_spenders/);
}

async function trait(t: Test, { page, show }: Visit): Promise<void> {
  await show('/audiences/lifetime_value');
  await page.getByRole('button', { name: 'List members' }).click();
  t.match(await page.getByRole('listitem').filter({ hasText: 'user-0001' }).innerText(), /"lifetime_value":42/);
  const known = page.getByRole('table', { name: 'What each destination knows' });
  await known.getByRole('row', { name: /crm.*has every change/ }).waitFor();
  await page
    .getByRole('link', { name: /^\d+:\d+/ })
    .first()
    .click();
  t.match(
    await page.getByRole('row').filter({ hasText: 'user-0001' }).innerText(),
    /entered\s+\{"lifetime_value":42\}/,
  );
}

async function prints(t: Test, { page, show }: Visit): Promise<void> {
  await show('/audiences/big_spenders');
  t.match(await page.locator('.zone').innerText(), Intl.DateTimeFormat().resolvedOptions().timeZone);
  t.match(await page.locator('main time').first().getAttribute('title'), /(UTC|GMT[+-\d:]*|[A-Z]{3,4})$/);
  await page.emulateMedia({ media: 'print' });
  for (const gone of ['nav', 'main button', 'main select']) {
    const shown = await page.locator(gone).filter({ visible: true }).count();
    t.equal(shown, 0, gone);
  }
  t.ok(await page.getByRole('table', { name: 'Runs, newest first' }).isVisible());
  await page.emulateMedia({ media: null });
}

async function begins(t: Test, { page, go }: Visit): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  await page.route('**/api/v1/session', async (route) => {
    await promise;
    await route.continue();
  });
  await page.goto('/', { waitUntil: 'commit' });
  await page.locator('.waiting.alone').waitFor();
  t.equal(await page.locator('.waiting.alone').innerText(), 'Rollcall');
  resolve();
  await page.getByRole('navigation').waitFor();
  await page.unroute('**/api/v1/session');
  await go('/');
}

async function endpoint(t: Test, { page, go, show }: Visit, { app }: Estate): Promise<void> {
  await show(await linkOn(page, show, '/endpoints', 'crm'));
  await page.getByRole('button', { name: 'Send a test event' }).click();
  await page
    .getByRole('status')
    .filter({ hasText: /success.*200 unhandled/s })
    .waitFor();
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click();
  await page.locator('.head .state', { hasText: 'paused' }).waitFor();
  t.ok((await app.store.endpoints()).some(({ destination, pausedAt }) => destination === 'crm' && pausedAt !== null));
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.locator('.head .state', { hasText: 'open' }).waitFor();
  await show(await linkOn(page, show, '/endpoints', 'ads'));
  await page.getByText('The signature does not match.').first().waitFor();
  const day = page.getByRole('region', { name: 'In the last day' });
  await day.getByText('refused').waitFor();
  t.match(await day.innerText(), /0 %/);
  await page.getByText('requests at once').waitFor();
  await go('/endpoints');
  const row = page.locator('tbody tr', { hasText: '/hooks/ads' });
  await row.getByText(/95 % in/).waitFor();
  t.match(await row.innerText(), /ads.*refusing.*0 %.*of \d+.* m?s/s);
}

async function deletions(t: Test, { page, show }: Visit, { app, address }: Estate): Promise<void> {
  await show('/deletions');
  await page.getByText('Nobody has asked for a deletion.').waitFor();
  const body = JSON.stringify({ regulationType: 'DELETE_ONLY', subjectType: 'USER_ID', subjectIds: ['user-0002'] });
  const headers = { 'content-type': 'application/json', ...AS_ADMIN };
  await (await fetch(`${address}/regulations/sources/personas`, { method: 'POST', headers, body })).text();
  const row = page.getByRole('table', { name: 'Deletion requests, newest first' }).locator('tbody tr');
  await row
    .filter({ hasText: 'finished' })
    .filter({ hasText: /crm, \d/ })
    .filter({ hasText: 'ads: 0 of 1' })
    .waitFor();
  t.match(await row.innerText(), /admin\s+deletes 1 person\s+of personas/);
  t.notMatch(await page.content(), 'user-0002');
  const [found] = await app.store.regulations({ limit: 1 });
  t.match(await app.store.confirmed([found?.id ?? '']), [{ destination: 'crm', notices: 1 }]);
  t.same(await axeFindings(page), []);
}

async function eventLog(t: Test, { page, go }: Visit): Promise<void> {
  await go('/events');
  t.match(await page.locator('.figures').innerText(), /EVENTS\s+27|Events\s+27/i);
  t.same(await axeFindings(page), []);
  await page.getByRole('link', { name: 'sent to a destination' }).click();
  // Its endpoint is paused, so the send waits.
  await page.getByLabel('Destination').selectOption('old');
  await page.getByLabel('Received since').fill('2020-01-01');
  await page.getByRole('button', { name: 'Count' }).click();
  await page
    .getByRole('status')
    .filter({ hasText: /^\d+ events? to send/ })
    .waitFor();
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Send' }).click();
  await page.getByRole('row').filter({ hasText: 'sending' }).waitFor();
  await page.getByRole('button', { name: 'Cancel', exact: true }).click();
  await page.getByRole('button', { name: 'Cancel it' }).click();
  await page.getByRole('row').filter({ hasText: 'cancelled' }).waitFor();
  t.equal(await page.evaluate(FOCUSED), 'TR', 'the button is gone');
  t.same(await axeFindings(page), []);
}

async function liveAudience(t: Test, { page, show, complaints }: Visit, { app, send }: Estate): Promise<void> {
  await app.store.addHistory(Date.now() - 3_600_000, [{ subject: 'audience', name: 'loyal', members: 0 }]);
  await show('/audiences/loyal?step=minute');
  const definition = page.getByRole('region', { name: 'Definition' });
  t.match(
    await definition.innerText(),
    /did Order Completed at least 3 times\s.*performed: Order Completed\s+atLeast: 3/s,
  );
  t.match(await page.locator('.figures').innerText(), /Members\s+0\s/i);
  const order = { type: 'track', event: 'Order Completed', userId: 'late-buyer' };
  await send([order, order, order]);
  // This service computes when it is asked to.
  await app.sync.run(['loyal']);
  // Counts are written every ten seconds.
  const steps = page.getByRole('img', {
    name: /^Entered and exited per minute\. entered: .*highest 1; exited: .*highest 0/,
  });
  await steps.waitFor();
  await page.getByRole('group', { name: /^Members\. members: now 1,/ }).waitFor();
  await until(async () => /Members\s+1\s/i.test(await page.locator('.figures').innerText()));
  await page.getByRole('button', { name: 'List members' }).click();
  t.equal(await page.evaluate(FOCUSED), 'H2', 'the button is gone');
  await page.getByRole('link', { name: 'late-buyer' }).click();
  await page.locator('.story > li').filter({ hasText: 'entered' }).waitFor();
  const conditions = page.getByRole('table', { name: 'Conditions' });
  t.match(await conditions.innerText(), /did Order Completed at least 3 times.*yes.*3 times, last/s);
  await show('/audiences/loyal/members/user-0001');
  t.match(await conditions.innerText(), /did Order Completed at least 3 times.*no.*1 time, last/s);
  await show('/audiences');
  await page
    .getByRole('row')
    .filter({ hasText: 'loyal' })
    .getByRole('img', { name: /^From \d+ to \d+ members$/ })
    .waitFor();
  t.same(complaints, []);
}

async function letters(t: Test, { page, go, show }: Visit, estate: Estate): Promise<void> {
  await go('/dead-letters?destination=old');
  const rows = page.getByRole('table').locator('tbody tr');
  const before = await rows.count();
  t.ok(before >= 2, `${before} rows`);
  const boxes = rows.getByRole('checkbox');
  await boxes.nth(0).check();
  await boxes.nth(1).focus();
  await page.keyboard.press('Space');
  await page.getByText('2 chosen').waitFor();
  // Something else comes meanwhile.
  await estate.send([{ type: 'track', event: 'Order Completed', userId: 'late' }]);
  await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
  t.equal(await page.locator('tr.chosen').count(), 2);
  t.equal(await page.evaluate('document.activeElement.type'), 'checkbox', 'the focus stays');
  await page.getByRole('button', { name: 'Drop' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Drop for good' }).click();
  await page.getByRole('status').getByText('2 dead letters dropped').waitFor();
  await until(async () => (await rows.count()) === before - 2);
  await rows.getByRole('link').first().click();
  const letter = page.getByRole('region', { name: 'Request' });
  t.match(await letter.locator('pre').innerText(), /"event": "Order Completed"/);
  await page.getByRole('button', { name: 'Send again to old' }).click();
  await page.getByRole('status').getByText('Queued again for old').waitFor();
  await show('/dead-letters?destination=old');
  await page.getByRole('button', { name: 'Replay' }).click();
  t.match(await page.getByRole('dialog').innerText(), /All that match/);
  await page.getByRole('dialog').getByRole('button', { name: 'Send again' }).click();
  await page.getByRole('status').getByText('queued again').waitFor();
  await page.locator('.empty').waitFor();
}

/** Before the search begins, which waits for the next key. */
async function typing(t: Test, { page, show }: Visit): Promise<void> {
  await show('/endpoints');
  const typed = await page.evaluate(`(async () => {
    const field = document.querySelector('[type=search]');
    field.value = 'cr';
    field.dispatchEvent(new Event('input', { bubbles: true }));
    dispatchEvent(new PopStateEvent('popstate'));
    await Promise.resolve();
    return field.value;
  })()`);
  t.equal(typed, 'cr');
  await page.waitForURL('**/endpoints?find=cr');
}

async function ways(t: Test, { page, go, show }: Visit): Promise<void> {
  await go('/');
  await page.keyboard.press('Tab');
  t.equal(await page.evaluate('document.activeElement.textContent'), 'Skip to the content');
  await page.getByRole('link', { name: 'Endpoints', exact: true }).click();
  await settled(page);
  t.equal(await page.evaluate('document.activeElement.tagName'), 'H1', 'as after a page has loaded');
  t.equal(await page.title(), 'Endpoints · Rollcall');
  t.equal(await page.locator('nav [aria-current=page]').innerText(), 'Endpoints');
  await page.getByRole('combobox', { name: 'State' }).selectOption('disabled');
  await page.waitForURL('**/endpoints?state=disabled');
  t.equal(await page.locator('tbody tr').count(), 1);
  await page.reload();
  await settled(page);
  t.equal(await page.locator('tbody tr').count(), 1, 'the address says it all');
  await page.goBack();
  await page.waitForURL((url) => url.pathname === '/');
  await page.getByRole('combobox', { name: 'Theme' }).selectOption('dark');
  t.equal(await page.evaluate('getComputedStyle(document.body).backgroundColor'), 'rgb(20, 22, 26)');
  await page.reload();
  await settled(page);
  t.equal(await page.locator('html').getAttribute('data-theme'), 'dark', 'it is remembered');
  await show('/activity');
  t.match(await page.getByRole('table').innerText(), /admin\s+endpoint\.pause/);
}

async function gone(t: Test, { page, show }: Visit, estate: Estate): Promise<void> {
  await show('/endpoints');
  await page.getByText('Live', { exact: true }).waitFor();
  // Times and sums may still change before it goes.
  const endpoints = page.locator('tbody tr td:first-child');
  const before = await endpoints.allInnerTexts();
  t.ok(before.length > 0);
  await estate.close();
  await page.getByText('Rollcall does not answer').waitFor();
  t.same(await endpoints.allInnerTexts(), before);
  await page.getByRole('link', { name: 'Sources' }).click();
  await page.getByRole('alert').first().waitFor();
  t.match(await page.getByRole('alert').first().innerText(), 'Rollcall does not answer');
}

/** Each kind shows a few, so that what comes of many hides nothing else. */
async function manyNeeds(t: Test, { page, go }: Visit, { app, spenders }: Estate): Promise<void> {
  const pausedAt = app.store.time.now();
  for (const { name, endpoints } of app.destinations().filter(({ name }) => /^app-\d$/.test(name) || name === 'old')) {
    for (const { id } of endpoints)
      await app.store.markEndpoint({ endpoint: id, destination: name, pausedAt, deadSince: null });
  }
  await app.sync.run(['big_spenders', 'broken']);
  spenders([]);
  await app.sync.run(['big_spenders']);
  await go('/');
  const needs = page.getByRole('list', { name: 'What needs a person' }).getByRole('listitem');
  await needs.filter({ hasText: 'big_spenders is held' }).waitFor();
  await needs.filter({ hasText: 'broken failed' }).waitFor();
  t.equal(await needs.filter({ hasText: 'is paused at' }).count(), 3);
  t.match(await page.locator('.figures').innerText(), /99\d of 1,005/);
  await needs.filter({ hasText: '8 more endpoints are paused' }).getByRole('link').click();
  await page.waitForURL('**/endpoints?state=paused');
  await settled(page);
  t.equal(await page.locator('tbody tr').count(), 11);
}

/** A link signs in, hides its code before any other script runs, and works once. */
async function signInByLink(t: Test, browser: Browser, { app, address }: Estate): Promise<void> {
  const { page, go, complaints } = await visit(t, browser, address, { token: null });
  // The second script of the page reads the theme first. Note the address that it could have read.
  await page.addInitScript(`const read = Storage.prototype.getItem;
    Storage.prototype.getItem = function (key) { globalThis.seen ??= location.href; return read.call(this, key); }`);
  const link = app.signInLink() ?? '';
  const asked: string[] = [];
  page.on('request', (request) => void asked.push(`${request.url()} ${request.headers()['referer'] ?? ''}`));
  await page.goto(link);
  await page.getByRole('navigation').waitFor();
  t.same([page.url(), await page.evaluate('seen')], [`${address}/`, `${address}/`]);
  t.equal(await page.evaluate('history.length'), 2, 'about:blank and the page');
  await page.goBack();
  await page.goForward();
  t.equal(page.url(), `${address}/`, 'going back does not lead to the link');
  t.notOk(asked.some((each) => each.includes('token=')));
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.waitForURL('**/sign-in');
  await page.goto(link);
  await page.getByRole('alert').getByText('This link was used already').waitFor();
  t.equal(page.url(), `${address}/`);
  // Only the fragment changes, so that the page is not loaded again.
  await page.evaluate(`location.href = ${JSON.stringify(app.signInLink())}`);
  await page.getByRole('navigation').waitFor();
  t.equal(page.url(), `${address}/`);
  await go('/audiences');
  await page.getByRole('table').waitFor();
  t.same(
    complaints.filter((text) => !/status of 401/.test(text)),
    [],
  );
}

async function signIn(t: Test, { page, go, show, complaints }: Visit): Promise<void> {
  await go('/endpoints?find=app-99');
  await until(async () => (await page.title()) === 'Sign in · Rollcall');
  t.same(await axeFindings(page), []);
  await page.getByLabel('Admin token').fill('nonsense');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByText('The admin token is wrong').waitFor();
  await page.getByLabel('Admin token').fill('the-token-of-eyes');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('table').waitFor();
  t.equal(await page.locator('tbody tr').count(), 11, 'app-99 and app-990 to app-999');
  t.equal(await page.evaluate('document.cookie'), '', 'no script sees the session');
  await show('/endpoints');
  t.equal(await page.locator('tbody tr').count(), 100, 'a part of a thousand');
  await page.getByRole('button', { name: 'Show more' }).click();
  await page.locator('tbody tr').nth(199).waitFor();
  await show('/audiences');
  t.equal(await page.locator('tbody tr').count(), 306);
  // Axe takes two seconds for all of them.
  await show('/audiences?find=19');
  t.equal(await page.locator('tbody tr').count(), 13, 'segment_19, 119, 190 to 199 and 219');
  t.same(await axeFindings(page), []);
  await show('/audiences/big_spenders');
  t.equal(await page.getByRole('button', { name: 'Run now' }).count(), 0, 'who may only look sees nothing to press');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.waitForURL('**/sign-in');
  await page.getByLabel('Admin token').fill('the-token-of-ops');
  await page.keyboard.press('Enter');
  await page.getByRole('navigation').waitFor();
  await go('/audiences/big_spenders');
  t.equal(await page.getByRole('button', { name: 'Run now' }).count(), 1);
  t.same(
    complaints.filter((text) => !/status of 401/.test(text)),
    [],
  );
}
