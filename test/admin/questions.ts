import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { until } from '../helpers/until.ts';
import { settled, type Visit } from './browser.ts';

/** The Operator FAQ of docs/operating.md: each question, the way to its answer from the overview, and the command that has it too. */
const rows = readFileSync(join(import.meta.dirname, '../../docs/operating.md'), 'utf8')
  .split('\n')
  .filter((line) => line.startsWith('| ') && !line.startsWith('| question'))
  .map((line) => line.split(' | ').map((cell) => cell.replaceAll(/^\| | \|$/g, '')))
  .map(([question = '', way = '']) => ({ question, way }));

const MOST_CLICKS = 3;

/** As the field for a time has it, whenever the test runs. */
const WEEKS_AGO = new Date(Date.now() - 21 * 86_400_000).toISOString().slice(0, 16);

/** The answers as they stand on the pages, by question. */
const ANSWERS: Readonly<Record<string, RegExp>> = {
  'Is all well?': /\d+ things need you/,
  'What needs me now?': /big_spenders is held.* broken failed/,
  'Which alerts were sent, and are they over?': /big_spenders is held: .*since [\d:]+, announced [\d:]+/,
  'Who left big_spenders at the last run?': /held .*Who would enter and leave .*user-0010 would leave/,
  'Was the CRM told that user-0001 left, and when?': /left \d.* crm was told 200 \d/,
  'What do we know of user-0001, and who was told what?':
    /Audiences and traits .*not a member .*left .*crm was told 200 \d/,
  'Was somebody a member on the first of November?': /(Was not a member|Nobody knows any more) .*As it was at/,
  'Why is a run held, and what would it change?': /is held and waits for you .*0 would enter, 57 would leave/,
  'How do I approve or reject it?': /Approve this run\? Receivers get 0 entered, 57 exited/,
  'What would a run send now?': /A run now would send \d+ messages/,
  'Who would enter and leave if its definition were another?': /Edit big_spenders .*Would enter .*Would leave/,
  'How large is it, how did it grow, and when does it run next?':
    /Members 63 .*Next run (in \d+|now).*Size and changes .*Members/,
  'Why did a run fail?': /It fails .*sql_failed.* nowhere/,
  'How do I run it now?': /A run of big_spenders is ordered/,
  'How do I stop it for a while?': /Pause big_spenders\? .*until somebody resumes it/,
  'A receiver lost its data: how does it get everyone again?': /Send all of big_spenders again\?/,
  'Did the events of user-0001 reach the CRM?': /Where it went .*crm delivered .*Attempts .*crm success 200/,
  'How do I send one message again?': /Queued again for|newer change already/,
  'Which endpoints accept nothing, and since when?': /ads \S+ refusing since .*old \S+ paused since/,
  'What does the receiver answer?': /refused 401 .*The signature does not match/,
  'It is being repaired: how do I hold everything back?': /Pause this endpoint\?/,
  'It is fixed: how do I have it tried again?': /ads is posted to again within seconds/,
  'Does it accept a signed message at all?': /Test event .*refused .*401 in .*signed by/,
  'What was never delivered, and how is it sent again?': /Send them again\? .*queued again/,
  'Which messages were rejected, and why?': /shop event_not_defined/,
  'How far back do events go, and are they whole?': /whole\. Events \d+ received/,
  'Who asked for a deletion, and who confirmed it?': /admin deletes 1 person .*crm, \d/,
  'Who approved, paused or dropped something?': /admin regulation\.file/,
};

/** Goes each way of the table by what stands on the screen, as a reader would; nothing that asks first is confirmed. */
export async function questions(t: Test, { page, complaints }: Visit): Promise<void> {
  t.same(
    rows.map(({ question }) => question),
    Object.keys(ANSWERS),
    'the page has these questions',
  );
  for (const { question, way } of rows) {
    await page.locator('nav li a').first().click();
    await settled(page);
    const steps = way.split(' → ').filter((step) => !step.startsWith('Overview'));
    t.ok(steps.length <= MOST_CLICKS, `${question} ${steps.length} clicks`);
    const shown = async () => (await page.locator('body').innerText()).replaceAll(/\s+/g, ' ');
    try {
      for (const step of steps) await take(page, step, question);
      await until(async () => ANSWERS[question]?.test(await shown()) ?? false);
      t.pass(question);
    } catch (error) {
      t.fail(`${question} ${String(error)}`, { shown: await shown() });
    }
    await page.keyboard.press('Escape');
  }
  t.same(complaints, []);
}

/** Typing counts as a click, as it takes one to begin. */
async function take(page: Page, step: string, question: string): Promise<void> {
  const [, what = step, typed] = /^(.*?)(?: `(.+)`)?$/.exec(step) ?? [];
  const needs = page.getByRole('list', { name: 'What needs a person' }).getByRole('listitem');
  const about = /ads|fixed/.test(question) ? 'ads' : /fail/.test(question) ? 'broken' : 'big_spenders';
  const need = needs.filter({ hasText: about });
  if (['Decide', 'Look'].includes(what)) await need.getByRole('link', { name: what, exact: true }).first().click();
  else if (what === 'Try again') await need.getByRole('button', { name: what }).click();
  else if (what.endsWith('Look up')) {
    await page.getByRole('searchbox').fill(typed ?? 'user-0001');
    if (what.startsWith('As it was at')) await page.getByLabel('As it was at').fill(WEEKS_AGO);
    await page.getByRole('button', { name: 'Look up' }).click();
  } else if (what === 'User id') await page.getByLabel(what).fill(typed ?? '');
  else if (what === 'the last run') await linkIn(page, 'Runs, newest first').click();
  else if (what === 'the message') await linkIn(page, 'Messages, by state and newest first', 'Order Completed').click();
  else {
    const name = what.split(', or ', 1)[0] ?? what;
    const target = page
      .getByRole('link', { name, exact: true })
      .or(page.getByRole('button', { name: new RegExp(`^${name}`) }));
    await target.first().click();
  }
  await settled(page);
}

/** The link in the first row of a table that has a text. */
const linkIn = (page: Page, table: string, hasText = '') =>
  page.getByRole('table', { name: table }).locator('tbody tr').filter({ hasText }).first().getByRole('link').first();
