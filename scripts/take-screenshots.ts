/**
 * Takes the pictures of docs/pages anew (`npm run screenshots`), of a service in which much has gone wrong. Look at them before they
 * are committed.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions } from 'playwright-core';
import { settled } from '../test/admin/browser.ts';
import { type Estate, people, startEstate } from '../test/admin/estate.ts';
import { ADMIN } from '../test/helpers/admin.ts';
import { launchBrowser } from '../test/helpers/chromium.ts';

const OUT = join(import.meta.dirname, '../docs/pages');
const MINUTE = 60_000;

const WIDE = { viewport: { width: 1_100, height: 820 } } as const;
const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true } as const;

interface Picture {
  readonly name: string;
  readonly path: string;
  readonly options: BrowserContextOptions;
}

const DRAFT = {
  mode: 'compose',
  item: { name: 'Almost loyal', source: 'personas', when: { all: [{ performed: 'Order Completed', atLeast: 2 }] } },
};

const PICTURES: readonly Picture[] = [
  { name: 'overview-light', path: '/', options: { ...WIDE, colorScheme: 'light' } },
  { name: 'audience-dark', path: '/audiences/big_spenders?step=minute', options: { ...WIDE, colorScheme: 'dark' } },
  { name: 'live-light', path: '/audiences/loyal?step=minute', options: { ...WIDE, colorScheme: 'light' } },
  {
    name: 'story-light',
    path: '/audiences/big_spenders/members/user-0001',
    options: { ...WIDE, colorScheme: 'light' },
  },
  {
    name: 'try-light',
    path: `/try#${encodeURIComponent(JSON.stringify(DRAFT))}`,
    options: { ...WIDE, colorScheme: 'light' },
  },
  { name: 'endpoints-phone', path: '/endpoints', options: { ...PHONE, colorScheme: 'light' } },
];

/** Like the tides, so that nobody takes it for chance. */
const wave = (n: number, most: number) => Math.round((most * (1 + Math.sin(n / 20))) / 2);

/** Six hours of what such a service counts, and an hour of what has just happened. */
async function fill({ app, spenders, send }: Estate): Promise<void> {
  const now = Date.now();
  for (let n = 359; n > 0; n -= 1) {
    const passed = wave(n, 900);
    const counts = { accepted: passed, delivered: passed - (n % 7), retried: n % 11, dead: n % 60 === 0 ? 2 : 0 };
    await app.store.addHistory(now - n * MINUTE, [
      {
        subject: 'all',
        name: '',
        counts,
        took: [passed >> 1, passed >> 2, passed >> 3, 3, 1],
        pending: wave(n, 40),
        oldest: wave(n, 4_000),
      },
      {
        subject: 'audience',
        name: 'loyal',
        counts: { entered: wave(n, 9), exited: wave(n + 30, 8) },
        members: 25 + Math.round(10 * Math.sin(n / 20)),
      },
      ...(n % 15 === 0
        ? [
            {
              subject: 'audience',
              name: 'big_spenders',
              members: Math.round(74 - n / 15),
              counts: { runs: 1 },
            } as const,
          ]
        : []),
    ]);
  }
  const orders = people(0, 25).flatMap((userId) =>
    [1, 2, 3].map(() => ({ type: 'track', event: 'Order Completed', userId })),
  );
  await send([...orders, { type: 'track', userId: 'u1' }]);
  spenders(people(0, 74));
  await app.sync.start();
  await app.sync.run();
  for (let n = 1; n <= 12; n += 1) {
    spenders(people(n * 2 - (n % 2), 74 + n * 2 + (n % 3)));
    await app.sync.run(['big_spenders']);
  }
  spenders(people(90, 96));
  await app.sync.run(['big_spenders', 'broken']);
  const isShown = async () =>
    (await app.store.deadLetters({ limit: 1 })).length > 0 &&
    (await app.sync.audiences()).some(({ key, members }) => key === 'loyal' && members === 25);
  while (!(await isShown())) await new Promise((done) => setTimeout(done, 100));
}

async function take(browser: Browser, address: string, { name, path, options }: Picture): Promise<void> {
  const context = await browser.newContext({ baseURL: address, reducedMotion: 'reduce', locale: 'en-GB', ...options });
  await context.request.post('/api/v1/session', { data: { token: ADMIN.token } });
  const page = await context.newPage();
  await page.goto(path);
  await settled(page);
  await page.locator('.chart, table').first().waitFor();
  await page.screenshot({ path: join(OUT, `${name}.png`) });
  await context.close();
}

const folder = await mkdtemp(join(tmpdir(), 'rollcall-pictures-'));
const estate = await startEstate(folder);
const browser = await launchBrowser();
try {
  await fill(estate);
  for (const picture of PICTURES) await take(browser, estate.address, picture);
} finally {
  await browser.close();
  await estate.close();
  await rm(folder, { recursive: true, force: true });
}
