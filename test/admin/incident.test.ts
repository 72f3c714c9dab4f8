import t, { type Test } from 'tap';
import { AS_ADMIN } from '../helpers/admin.ts';
import { launchBrowser, withoutBrowser } from '../helpers/chromium.ts';
import { ESTATE } from '../helpers/fill-store.ts';
import { settled, type Visit, visit } from './browser.ts';
import { type Estate, startEstate } from './estate.ts';
import { tasks } from './tasks.ts';

/** The pages over more attempts and letters than one answer of the API covers. */
t.test('an incident', { skip: withoutBrowser }, async (t) => {
  const browser = await launchBrowser();
  t.teardown(() => browser.close());
  const size = { destinations: ESTATE.destinations - 5, audiences: ESTATE.audiences - 5 };
  const estate = await startEstate(t.testdir(), { ...size, filled: ESTATE });
  t.teardown(() => estate.close());
  const desk = await visit(t, browser, estate.address);
  await t.test('finds attempts and letters behind a hundred thousand others', (t) => behind(t, desk, estate));
  await t.test('shows more than 500 rows', (t) => more(t, desk));
  await t.test('does each task of an operator in few clicks', (t) => tasks(t, desk, estate));
  await t.test('opens a seventh tab', async (t) => {
    const context = desk.page.context();
    for (let n = 0; n < 6; n += 1) {
      const page = await context.newPage();
      await page.goto('/');
      await page.getByText('Live', { exact: true }).waitFor();
      // A browser without windows takes every page for shown.
      await page.evaluate(`Object.defineProperty(document, 'hidden', { configurable: true, get: () => globalThis.isAway ?? true });
        document.dispatchEvent(new Event('visibilitychange'))`);
    }
    await desk.page.goto('/endpoints');
    await settled(desk.page);
    t.equal(await desk.page.locator('tbody tr').count(), 50);
    const [, first] = context.pages();
    await first?.evaluate(`globalThis.isAway = false; document.dispatchEvent(new Event('visibilitychange'))`);
    await estate.app.store.markEndpoint({
      ...(await endpointOf(estate, 'old')),
      pausedAt: Date.now(),
      deadSince: null,
    });
    await first?.getByRole('listitem').filter({ hasText: 'old is paused' }).waitFor();
    t.pass('one that is shown again is live');
  });
  t.same(desk.complaints, []);
});

async function endpointOf({ app }: Estate, name: string) {
  const destination = app.destinations().find((each) => each.name === name);
  return { destination: name, endpoint: destination?.endpoints[0]?.id ?? '' };
}

async function behind(t: Test, { page, go, show }: Visit, estate: Estate): Promise<void> {
  const { endpoint } = await endpointOf(estate, 'old');
  const answer = await fetch(`${estate.address}/api/v1/attempts?endpoint=${endpoint}`, { headers: AS_ADMIN });
  t.match(await answer.json(), { data: [], next: String }, 'one answer has none');
  const ofUser = await fetch(`${estate.address}/api/v1/attempts?userId=u17`, { headers: AS_ADMIN });
  t.match(await ofUser.json(), { data: [{ messageId: 'm17' }], next: null }, 'all of a person');
  await go(`/endpoints/${endpoint}`);
  await page.getByRole('cell', { name: 'refused' }).nth(24).waitFor();
  await show('/messages/m17');
  await page
    .getByRole('table', { name: /Attempts/ })
    .getByText('410')
    .waitFor();
  await show('/dead-letters?destination=old');
  await page.locator('tbody tr', { hasText: 'old' }).nth(49).waitFor();
}

async function more(t: Test, { page, show }: Visit): Promise<void> {
  await show('/dead-letters');
  const rows = page.locator('tbody tr');
  for (let shown = 50; shown <= 550; shown += 50) {
    await rows.nth(shown - 1).waitFor();
    await page.getByRole('button', { name: 'Show more' }).click();
  }
  await rows.nth(599).waitFor();
  t.equal(await rows.count(), 600);
}
