import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { PAGES } from '../../src/admin/page-lists.ts';
import { AS_ADMIN } from '../helpers/admin.ts';
import { launchBrowser, withoutBrowser } from '../helpers/chromium.ts';
import { until } from '../helpers/until.ts';
import { axeFindings, markupFindings, type Visit, visit } from './browser.ts';
import { ARABIC_USER, type Estate, HEBREW_APP, LONG_KEY, LONG_USER, people, startEstate } from './estate.ts';

/** Widths in pixels. 1,280 at 200 % has 640, and 1,440 has 720. */
const WIDTHS = [390, 640, 720, 1_280, 1_600];
const SCHEMES = ['light', 'dark'] as const;

/** Every view, with names that are long or written from right to left. */
t.test('looks', { skip: withoutBrowser }, async (t) => {
  const browser = await launchBrowser();
  t.teardown(() => browser.close());
  const estate = await startEstate(t.testdir(), { foreign: true });
  t.teardown(() => estate.close());
  const views = await fill(estate);
  const desk = await visit(t, browser, estate.address, { viewport: { width: 1_280, height: 900 } });
  await desk.go('/');
  for (const path of views) {
    await t.test(`${path} fits each width, in light and dark, without faults`, async (t) => {
      await desk.show(path);
      await fits(t, desk.page);
      t.same(await desk.page.evaluate(MIXED), [], 'isolates names from the text around them');
      t.same(await markupFindings(desk.page), [], 'has valid markup');
    });
    await t.test(`${path} needs no mouse`, (t) => tabs(t, desk.page));
  }
  await t.test('dialogs keep the focus, and give it back', (t) => dialogs(t, desk));
  await t.test('a plan gives the focus back', (t) => panel(t, desk));
  t.same(desk.complaints, []);
});

/** Makes everything that a page can show, and gives the address of each page. */
async function fill({ app, address, spenders, send }: Estate): Promise<readonly string[]> {
  await app.sync.run();
  spenders(people(50, 60));
  await app.sync.run(['big_spenders']);
  const users = [ARABIC_USER, LONG_USER];
  await send(users.map((userId) => ({ type: 'track', event: 'شراء (جديد)', userId, messageId: `m ${userId}` })));
  await send({ type: 'track', userId: ARABIC_USER });
  const request = { regulationType: 'DELETE_ONLY', subjectType: 'USER_ID', subjectIds: ['user-0002'] };
  const headers = { 'content-type': 'application/json', ...AS_ADMIN };
  await (await fetch(`${address}/regulations`, { method: 'POST', headers, body: JSON.stringify(request) })).text();
  await until(async () => (await app.store.deadLetters({ limit: 1 })).length > 0);
  const [run] = await app.store.runs({ key: LONG_KEY, limit: 1 });
  const endpoint = app.destinations().find(({ name }) => name === HEBREW_APP)?.endpoints[0]?.id ?? '';
  const [letter] = await app.store.deadLetters({ limit: 1 });
  const [deletion] = await app.store.regulations({ limit: 1 });
  const parts: Record<string, string> = {
    ...{ name: LONG_KEY, run: run?.id ?? '', user: ARABIC_USER },
    ...{ '/endpoints': endpoint, '/messages': letter?.messageId ?? '', '/deletions': deletion?.id ?? '' },
  };
  const views = PAGES.filter(({ view }) => view !== 'sign-in').map(({ path }) =>
    path.replaceAll(/:(\w+)/g, (_, part: string) =>
      encodeURIComponent(parts[part] ?? parts[path.replace(/\/:id$/, '')] ?? ''),
    ),
  );
  return [...views, '/audiences/big_spenders', `/people/${LONG_USER}`];
}

/**
 * Faults of each width, in one scheme after the other: so both are searched on phones and desks. `LOOKS=all` searches each width in
 * both.
 */
async function fits(t: Test, page: Page): Promise<void> {
  for (const [index, width] of WIDTHS.entries()) {
    await page.setViewportSize({ width, height: 900 });
    for (const colorScheme of process.env['LOOKS'] === 'all' ? SCHEMES : [SCHEMES[index % 2]]) {
      await page.emulateMedia({ colorScheme: colorScheme ?? null });
      t.same(await axeFindings(page), [], `${width} px, ${colorScheme}`);
    }
    const [wide, room] = (await page.evaluate('[document.documentElement.scrollWidth, innerWidth]')) as number[];
    t.ok((wide as number) <= (room as number), `${wide} wide on ${room}`);
  }
  await page.setViewportSize({ width: 1_280, height: 900 });
}

/** Texts from right to left that share a line with others, whose order they would change. */
const MIXED = `(() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const mixed = [];
  while (texts.nextNode()) {
    const { data, parentElement } = texts.currentNode;
    const isAlone = parentElement.closest('bdi, pre, code, option, textarea, title');
    if (/\\p{Script=Arabic}|\\p{Script=Hebrew}/u.test(data) && !isAlone) mixed.push(parentElement.outerHTML.slice(0, 200));
  }
  return mixed;
})()`;

/** Where the focus is: nowhere, at a new place, or where it was before. Each place must be seen. */
const FOCUSED = `(() => {
  const at = document.activeElement;
  if (at === document.body) return 'nowhere';
  if (at.dataset.reached) return at === globalThis.last ? 'same' : 'again';
  at.dataset.reached = 'yes';
  globalThis.last = at;
  const { outlineStyle, outlineWidth } = getComputedStyle(at);
  const { bottom, top, width } = at.getBoundingClientRect();
  const isSeen = outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2 && bottom > 0 && top < innerHeight && width > 0;
  return isSeen ? 'seen' : 'unseen: ' + at.outerHTML.slice(0, 200);
})()`;

/** What people can act on. Of radio buttons, arrow keys reach the others. */
const UNREACHED = `[...document.querySelectorAll('a[href], button, input:not([type=radio]), select, textarea, summary, [tabindex="0"]')]
  .filter((each) => each.checkVisibility() && !each.disabled && !each.dataset.reached).map((each) => each.outerHTML.slice(0, 200))`;

async function tabs(t: Test, page: Page): Promise<void> {
  await page.evaluate(`document.activeElement.blur(); getSelection().removeAllRanges(); globalThis.last = null;
    for (const each of document.querySelectorAll('[data-reached]')) delete each.dataset.reached`);
  await page.locator('.skip').focus();
  const faults: string[] = [];
  let place = String(await page.evaluate(FOCUSED));
  while (place !== 'nowhere' && place !== 'again') {
    if (place.startsWith('unseen')) faults.push(place);
    await page.keyboard.press('Tab');
    place = String(await page.evaluate(FOCUSED));
  }
  t.same(faults, [], 'shows the focus');
  t.same(await page.evaluate(UNREACHED), [], 'reaches everything');
}

async function dialogs(t: Test, { page, show }: Visit): Promise<void> {
  for (const path of ['/audiences/big_spenders', '/dead-letters']) {
    await show(path);
    const openers = page.locator('[aria-haspopup=dialog]');
    const count = await openers.count();
    t.ok(count > 0, path);
    for (let n = 0; n < count; n += 1) {
      await openers.nth(n).focus();
      await page.keyboard.press('Enter');
      const dialog = page.getByRole('dialog');
      await dialog.waitFor();
      t.same(await axeFindings(page), [], await dialog.locator('h2').innerText());
      const places = new Set<unknown>();
      for (let press = 0; press < 6; press += 1) {
        await page.keyboard.press('Tab');
        places.add(await page.evaluate("document.activeElement.closest('dialog, body').tagName"));
      }
      // The browser's own controls come between the last and the first.
      t.ok(places.has('DIALOG'), 'keeps the focus');
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
      t.ok(await openers.nth(n).evaluate((opener) => opener.matches(':focus')), 'gives it back');
    }
  }
}

async function panel(t: Test, { page, show }: Visit): Promise<void> {
  await show('/audiences/newsletter');
  const plan = page.getByRole('button', { name: 'Plan' });
  await plan.focus();
  await page.keyboard.press('Enter');
  const close = page.getByRole('region', { name: 'Plan' }).getByRole('button', { name: 'Close' });
  await close.focus();
  await page.keyboard.press('Enter');
  await close.waitFor({ state: 'detached' });
  t.ok(await plan.evaluate((button) => button.matches(':focus')));
}
