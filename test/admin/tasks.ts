import type { Locator, Page } from 'playwright-core';
import type { Test } from 'tap';
import { AS_ADMIN } from '../helpers/admin.ts';
import { until } from '../helpers/until.ts';
import { settled, type Visit } from './browser.ts';
import { type Estate, people } from './estate.ts';

/** Hands on a page, which count: typing is a click, as it takes one to begin. */
interface Hands {
  readonly page: Page;
  click(name: string | Locator): Promise<void>;
  type(label: string, text: string): Promise<void>;
  /** Waits until the page shows the answer. */
  see(answer: RegExp): Promise<void>;
}

interface Task {
  /** The task, and the clicks that it took at 2190221, where it was possible. */
  readonly what: string;
  readonly before: string;
  readonly most: number;
  /** From the overview. */
  run(hands: Hands, estate: Estate): Promise<void>;
}

const TASKS: readonly Task[] = [
  {
    what: 'Why was user-0010 sent false, in whichever audience?',
    before: '3, if the audience is known',
    most: 2,
    async run({ click, type, see }) {
      await click('People');
      await type('User id', 'user-0010');
      await see(/big spenders ?not a member left .*crm was told 200/i);
    },
  },
  {
    what: 'Why is somebody not in a short definition?',
    before: 'no value and no threshold',
    most: 3,
    async run({ click, type, see }) {
      await click('Audiences');
      await click('loyal');
      await type('Is someone in it', 'one-order');
      await see(/did Order Completed at least 3 times when no 1 time, last/);
    },
  },
  {
    what: 'Which endpoint fails, since when, with which answer?',
    before: '0 for since, 1 or never for the answer',
    most: 0,
    run: ({ see }) => see(/billing answers 500 to everything .*Database is locked.* since [\d:]+/),
  },
  {
    what: 'Send again what failed since yesterday',
    before: '3, not by time',
    most: 3,
    async run({ page, click, type, see }) {
      await click('Dead letters');
      await type('Since', new Date(Date.now() - 86_400_000).toISOString().slice(0, 10));
      await click('Replay');
      await see(/All that match/);
      await page.keyboard.press('Escape');
    },
  },
  {
    what: 'Approve a held run',
    before: '4',
    most: 3,
    async run({ page, click, see }) {
      const need = page.getByRole('list', { name: 'What needs a person' }).getByRole('listitem');
      await click(need.filter({ hasText: 'big_spenders' }).getByRole('link', { name: 'Decide' }));
      await click('Approve…');
      await click('Approve and send');
      await see(/Approved: the changes are being sent/);
    },
  },
  {
    what: 'How large was an audience over a month?',
    before: '3, within 13 months',
    most: 3,
    async run({ page, click }) {
      await click('Audiences');
      await click('big_spenders');
      await click('30 days');
      await page.getByRole('group', { name: /^Members\. members: now \d+/ }).waitFor();
    },
  },
  {
    what: 'Is a deletion done?',
    before: '1 and a search in the text',
    most: 2,
    async run({ click, type, see }, { app }) {
      const [deletion] = await app.store.regulations({ limit: 1 });
      await click('Deletions');
      await type('Id of a request', deletion?.id ?? '');
      await see(/State finished.*Who confirmed/is);
    },
  },
  {
    what: 'Which audience changed most today?',
    before: 'more than 40',
    most: 2,
    async run({ page, click }) {
      await click('Audiences');
      await click('Entered');
      await until(async () => /big_spenders/.test(await page.locator('tbody tr').first().innerText()));
    },
  },
  {
    what: 'Find a message',
    before: '2',
    most: 2,
    async run({ click, type, see }) {
      await click('Messages');
      await type('Message id', 'first-order');
      await see(/Order Completed.*one-order/);
    },
  },
  {
    what: 'What would another definition return, who would enter and leave?',
    before: 'not there',
    most: 3,
    async run({ click, see }) {
      await click('Audiences');
      await click('loyal');
      await click('Try changes');
      await see(/Would enter .*Would leave/i);
    },
  },
];

/** Carries out each task in a browser, and comments on its clicks and seconds. */
export async function tasks(t: Test, { page, go, complaints }: Visit, estate: Estate): Promise<void> {
  await prepare(estate);
  for (const { what, before, most, run } of TASKS) {
    await go('/');
    let clicks = 0;
    const shown = async () => (await page.locator('body').innerText()).replaceAll(/\s+/g, ' ');
    const hands: Hands = {
      page,
      async click(name) {
        clicks += 1;
        const named = (role: 'link' | 'button') => page.getByRole(role, { name: String(name), exact: true });
        await (typeof name === 'string' ? named('link').or(named('button')).first() : name).click();
      },
      async type(label, text) {
        clicks += 1;
        await page.getByLabel(label).first().fill(text);
        await page.keyboard.press('Enter');
        await settled(page);
      },
      see: (answer) => until(async () => answer.test(await shown())),
    };
    const begun = performance.now();
    await run(hands, estate);
    const seconds = ((performance.now() - begun) / 1_000).toFixed(1);
    t.ok(clicks <= most, `${clicks} clicks: ${what}`);
    t.comment(`| ${what} | ${before} | ${clicks} | ${seconds} s |`);
  }
  t.same(complaints, []);
}

/** Somebody left, a run is held, somebody is deleted, and an endpoint fails. */
async function prepare({ app, address, send, spenders }: Estate): Promise<void> {
  await app.sync.run(['big_spenders', 'loyal']);
  spenders(people(0, 60).filter((user) => user !== 'user-0010'));
  await app.sync.run(['big_spenders']);
  const orders = people(0, 30).map((userId) => ({ type: 'track', event: 'Order Completed', userId }));
  await send([{ type: 'track', event: 'Order Completed', userId: 'one-order', messageId: 'first-order' }, ...orders]);
  const body = JSON.stringify({ regulationType: 'DELETE_ONLY', subjectType: 'USER_ID', subjectIds: ['user-0058'] });
  const headers = { 'content-type': 'application/json', ...AS_ADMIN };
  await (await fetch(`${address}/regulations/sources/personas`, { method: 'POST', headers, body })).text();
  await until(async () => (await app.store.regulations({ limit: 1 }))[0]?.status === 'FINISHED');
  await until(async () => (await app.store.endpoints()).some(({ deadAnswer }) => deadAnswer?.includes('locked')));
  const leaver = { userId: 'user-0010', destination: 'crm', outcome: 'success', limit: 2 } as const;
  await until(async () => (await app.store.attempts(leaver)).length > 1);
  await app.sync.run(['loyal']);
  spenders(people(0, 3));
  await app.sync.run(['big_spenders']);
}
