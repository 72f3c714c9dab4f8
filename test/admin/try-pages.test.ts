import type { Browser } from 'playwright-core';
import t, { type Test } from 'tap';
import { launchBrowser, withoutBrowser } from '../helpers/chromium.ts';
import { axeFindings, settled, type Visit, visit } from './browser.ts';
import { SECRETS, type Service } from './service.ts';
import { shop } from './shop.ts';

const ARABIC = 'مشترون دائمون';

t.test('the workbench in a browser', { skip: withoutBrowser }, async (t) => {
  const browser = await launchBrowser();
  t.teardown(() => browser.close());
  const service = await shop(t);
  await service.app.sync.run();
  const open = (options = {}) => visit(t, browser, service.app.address ?? '', { token: SECRETS.root, ...options });
  const desk = await open();

  await t.test('composes a definition with the keyboard', (t) => composes(t, desk));
  await t.test('keeps the draft in the address', (t) => keepsDraft(t, desk, open));
  await t.test('edits a definition beside what it is', (t) => edits(t, desk));
  await t.test('takes SQL and YAML, and shows mistakes at their places', (t) => texts(t, desk));
  await t.test('ends a trial that nobody waits for', (t) => hangsUp(t, desk, service));
  await t.test('copies the YAML', (t) => copies(t, browser, service));
  await t.test('says that a token may not query', async (t) => {
    const eyes = await open({ token: SECRETS.reader });
    await eyes.go('/try');
    await eyes.page.getByRole('radio', { name: 'SQL' }).check();
    await eyes.page.getByText('Your token may not query').waitFor();
    t.same(await findings(eyes.page), []);
  });
  for (const colorScheme of ['light', 'dark'] as const) {
    await t.test(`works on a phone, in ${colorScheme} mode, from right to left`, async (t) => {
      const phone = await open({ viewport: { width: 390, height: 844 }, colorScheme });
      await phone.go('/try?edit=live_ones');
      await phone.page.getByLabel('Name', { exact: true }).fill(ARABIC);
      await phone.page.getByRole('button', { name: 'Add a condition' }).click();
      await phone.page.getByLabel('A person').nth(1).selectOption('has the trait');
      await phone.page.getByLabel('Trait', { exact: true }).fill('plan');
      await phone.page.getByRole('button', { name: 'Add a condition' }).click();
      await phone.page.getByLabel('A person').nth(2).selectOption('did in order');
      for (const step of [0, 1])
        await phone.page
          .getByLabel('Event', { exact: true })
          .nth(step + 1)
          .fill('Cart Viewed');
      await phone.page.locator('section pre', { hasText: ARABIC }).waitFor();
      t.same(await findings(phone.page), []);
      const [width, room] = (await phone.page.evaluate(
        '[document.documentElement.scrollWidth, innerWidth]',
      )) as number[];
      t.ok((width as number) <= (room as number), `${width} wide on ${room}`);
      t.same(phone.complaints, []);
    });
  }
  t.same(desk.complaints, []);
});

const figure = ({ page }: Visit, title: string, value: string) =>
  page
    .locator('.figures > div', { hasText: title })
    .filter({ hasText: new RegExp(`^${title}\\s*${value}(?!\\d)`) })
    .waitFor();

async function findings(page: Visit['page']): Promise<readonly string[]> {
  // What is pale while it loads again has too little contrast.
  await settled(page);
  return axeFindings(page);
}

async function composes(t: Test, desk: Visit): Promise<void> {
  const { page, go } = desk;
  await go('/');
  await page.getByRole('link', { name: 'Try', exact: true }).click();
  await page.getByText(/performed must/).waitFor();
  await page.getByLabel('Event', { exact: true }).focus();
  await page.keyboard.type('Order Completed');
  await figure(desk, 'People', '2');
  t.ok(await page.locator('option[value="Cart Viewed"]').count(), 'names of the log');
  await page.keyboard.press('Tab');
  await page.getByLabel('How often').selectOption('at least');
  await figure(desk, 'People', '1');
  await page.getByRole('button', { name: 'Add a filter' }).press('Enter');
  t.equal(await page.getByLabel('Property', { exact: true }).inputValue(), 'properties.cart id');
  await page.getByLabel('Property', { exact: true }).fill('properties.total');
  await page.getByLabel('Operator').selectOption('gte');
  await page.getByLabel('Value', { exact: true }).fill('5.05');
  await figure(desk, 'People', '0');
  await page.getByLabel('Value', { exact: true }).fill('5');
  await figure(desk, 'People', '1');
  await page.getByRole('button', { name: 'Add a condition' }).press('Enter');
  const second = page.getByRole('group', { name: 'Condition 2' });
  await second.getByLabel('A person').selectOption('has the trait');
  await second.getByLabel('Trait', { exact: true }).fill('plan');
  await second.getByLabel('Operator').selectOption('in');
  await second.getByLabel('Value', { exact: true }).fill('pro, team');
  const conditions = page.getByRole('table', { name: 'People who pass each condition' });
  await conditions.getByText('trait plan').waitFor();
  t.match(await conditions.innerText(), /did Order Completed.*1.*1.*trait plan is one of "pro", "team".*1.*1/s);
  const people = page.getByRole('table', { name: 'Some of the people' });
  t.match(
    await people.innerText(),
    /u1.*did Order Completed.*: 2 times, last .*trait plan is one of "pro", "team": "pro"/s,
  );
  const others = page.getByRole('table', { name: 'Other audiences, most in common first' });
  await others.waitFor();
  t.match(await others.innerText(), /Buyers.*1.*100 %.*50.0 %/s);
  await page.getByRole('group', { name: /^As the log tells it now\. people: now 1/ }).waitFor();
  const yaml = page.locator('section pre', { hasText: 'audiences:' });
  t.match(
    await yaml.innerText(),
    /performed: Order Completed\n\s+atLeast: 2\n\s+where:\n\s+properties.total:\n\s+gte: 5\n/,
  );
  await second.getByRole('button', { name: 'Remove condition 2' }).press('Enter');
  await second.waitFor({ state: 'detached' });
  t.equal(await page.evaluate('document.activeElement.textContent'), 'Add a condition', 'the focus stays near');
  await page.getByLabel('A person').selectOption('did in order');
  await page.getByLabel('Event', { exact: true }).nth(0).fill('Order Completed');
  await page.getByLabel('Event', { exact: true }).nth(1).fill('Cart Viewed');
  await page.getByRole('combobox', { name: 'Step', exact: true }).nth(1).selectOption('did not');
  await conditions.getByText('when.all[0].sequence[0]').waitFor();
  t.match(
    await yaml.innerText(),
    /sequence:\n\s+- performed: Order Completed\n\s+- after:\n\s+atMost: 1 day\n\s+not:\n\s+performed: Cart Viewed/,
  );
  t.same(await findings(page), []);
}

async function keepsDraft(t: Test, desk: Visit, open: () => Promise<Visit>): Promise<void> {
  const { hash, search } = new URL(desk.page.url());
  t.equal(search, '', 'no server sees the draft');
  const other = await open();
  await other.go(`/try${hash}`);
  await other.page.getByRole('table', { name: 'People who pass each condition' }).waitFor();
  t.equal(await other.page.getByLabel('Event', { exact: true }).nth(1).inputValue(), 'Cart Viewed');
  t.same(other.complaints, []);
}

async function edits(t: Test, desk: Visit): Promise<void> {
  const { page, show } = desk;
  await show('/audiences/buyers');
  await page.getByRole('link', { name: 'Try changes' }).click();
  await page.getByRole('heading', { name: 'Edit buyers' }).waitFor();
  await figure(desk, 'Would leave', '0');
  await page.getByLabel('Within', { exact: true }).fill('10 days');
  await figure(desk, 'Would leave', '1');
  await page.getByRole('listitem').filter({ hasText: 'u2 would leave' }).waitFor();
  t.match(await page.locator('.figures').innerText(), /now 2/);
  await show('/try?edit=by_hand');
  await page.getByText('a draft gets no variables').waitFor();
  t.match(await page.getByRole('textbox', { name: 'SQL' }).inputValue(), /\$\{VARIABLE\}/);
}

async function texts(t: Test, desk: Visit): Promise<void> {
  const { page } = desk;
  await page.getByRole('textbox', { name: 'SQL' }).fill("select 'u' || range as user_id from range(7)");
  await figure(desk, 'People', '7');
  await page.getByRole('textbox', { name: 'SQL' }).fill('select nothing');
  await page.getByText('sql_failed').waitFor();
  await page.getByRole('textbox', { name: 'SQL' }).fill("select 'u1' as user_id");
  await figure(desk, 'People', '1');
  await page.getByRole('radio', { name: 'YAML' }).check();
  const text = page.getByRole('textbox', { name: 'YAML' });
  await text.fill('name: New\nsource: shop\nwhen:\n  performed: Order Completed\n  withn: 3 days\n');
  await page.getByRole('button', { name: '5:3' }).click();
  t.equal(await page.evaluate('document.activeElement.selectionStart'), 60);
  await page.keyboard.press('Shift+End');
  await page.keyboard.type('within: 3 days');
  await figure(desk, 'People', '1');
  await page.getByRole('radio', { name: 'Compose' }).check();
  t.equal(await page.getByLabel('Within', { exact: true }).inputValue(), '3 days');
  await page.getByLabel('Kind').selectOption('Computed trait');
  await page.getByLabel('Event', { exact: true }).fill('Order Completed');
  await figure(desk, 'People with a value', '2');
  t.match(await page.getByRole('table', { name: 'Some of the people' }).innerText(), /u1.*"new":2/s);
}

async function hangsUp(t: Test, { page }: Visit, { json }: Service): Promise<void> {
  await page.getByRole('radio', { name: 'SQL' }).check();
  const sql = page.getByRole('textbox', { name: 'SQL' });
  const asked = page.waitForRequest('**/api/v1/try');
  await sql.fill("select 'u' as user_id from range(1000000000000) as t(i) where hash(i) = 42");
  const failed = page.waitForEvent('requestfailed', (request) => request.url().endsWith('/try'));
  await asked;
  await sql.fill("select 'u1' as user_id");
  await failed;
  await page.locator('.figures', { hasText: /People\s*1/ }).waitFor();
  const { data } = await json('/api/v1/audit?limit=10');
  t.ok(data.some(({ outcome }: { outcome: string }) => outcome === 'request_timeout'));
}

async function copies(t: Test, browser: Browser, { app }: Service): Promise<void> {
  const { page, go } = await visit(t, browser, app.address ?? '', {
    token: SECRETS.root,
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  await go('/try?edit=buyers');
  await page.getByRole('button', { name: 'Copy YAML' }).click();
  await page.getByRole('status').getByText('The YAML is copied.').waitFor();
  t.match(await page.evaluate('navigator.clipboard.readText()'), /^audiences:\n {2}- name: Buyers\n/);
}
