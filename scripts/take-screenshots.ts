/**
 * Takes the pictures of docs/pages again (`npm run screenshots`), one of each view of a service in which much has gone wrong. Look at
 * them before they are committed.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { settled } from '../test/admin/browser.ts';
import { type Estate, people, startEstate } from '../test/admin/estate.ts';
import { ADMIN, AS_ADMIN } from '../test/helpers/admin.ts';
import { launchBrowser } from '../test/helpers/chromium.ts';

const OUT = join(import.meta.dirname, '../docs/pages');
const MINUTE = 60_000;

const WIDE = { viewport: { width: 1_100, height: 820 } } as const;
const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true } as const;

const DRAFT = {
  mode: 'compose',
  item: { name: 'Almost loyal', source: 'personas', when: { all: [{ performed: 'Order Completed', atLeast: 2 }] } },
};

/** The endpoint that refuses everything. */
const refusing = (app: Estate['app']) => app.destinations().find(({ name }) => name === 'ads')?.endpoints[0]?.id ?? '';

/** Every view, by the name of its picture, which ends with how it looks. */
async function views({ app }: Estate): Promise<Readonly<Record<string, string>>> {
  const [run] = await app.store.runs({ key: 'big_spenders', limit: 1 });
  const [letter] = await app.store.deadLetters({ limit: 1 });
  return {
    'overview-light': '/',
    'audiences-light': '/audiences',
    'audience-dark': '/audiences/big_spenders?step=minute',
    'live-light': '/audiences/loyal?step=minute',
    'run-light': `/audiences/big_spenders/runs/${run?.id}`,
    'story-light': '/audiences/big_spenders/members/user-0001',
    'try-light': `/try#${encodeURIComponent(JSON.stringify(DRAFT))}`,
    'person-dark': '/people/user-0001',
    'endpoints-phone': '/endpoints',
    'endpoint-light': `/endpoints/${refusing(app)}`,
    'messages-light': '/messages',
    'message-dark': `/messages/${encodeURIComponent(letter?.messageId ?? '')}`,
    'dead-letters-light': '/dead-letters',
    'sources-light': '/sources',
    'events-light': '/events',
    'sends-light': '/events/sends',
    'deletions-light': '/deletions',
    'activity-light': '/activity',
  };
}

/** Like the tides, so that nobody takes it for chance. */
const wave = (n: number, most: number) => Math.round((most * (1 + Math.sin(n / 20))) / 2);

/** Six hours of what such a service counts, and an hour of what has just happened. */
async function fill({ app, address, spenders, send }: Estate): Promise<void> {
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
        subject: 'endpoint',
        name: refusing(app),
        counts: n > 40 ? { delivered: 10 + wave(n, 90), retried: n % 5 } : { dead: 10 + wave(n, 90) },
        took: [0, 0, wave(n, 60), wave(n, 30), 5],
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
  const request = { regulationType: 'SUPPRESS_WITH_DELETE', subjectType: 'USER_ID', subjectIds: ['user-0040'] };
  const headers = { 'content-type': 'application/json', ...AS_ADMIN };
  await fetch(`${address}/regulations`, { method: 'POST', headers, body: JSON.stringify(request) });
  await fetch(`${address}/api/v1/audiences/newsletter/sync`, { method: 'POST', headers, body: '{}' });
  await fetch(`${address}/api/v1/event-log/sends`, {
    ...{ method: 'POST', headers },
    body: JSON.stringify({ destination: 'crm', since: '2020-01-01' }),
  });
  const isShown = async () =>
    (await app.store.deadLetters({ limit: 1 })).length > 0 &&
    (await app.sync.audiences()).some(({ key, members }) => key === 'loyal' && members === 25);
  while (!(await isShown())) await new Promise((done) => setTimeout(done, 100));
}

async function take(browser: Browser, address: string, name: string, path: string): Promise<void> {
  const context = await browser.newContext({
    ...{ baseURL: address, reducedMotion: 'reduce', locale: 'en-GB' },
    ...(name.endsWith('phone') ? PHONE : WIDE),
    colorScheme: name.endsWith('dark') ? 'dark' : 'light',
  });
  await context.request.post('/api/v1/session', { data: { token: ADMIN.token } });
  const page = await context.newPage();
  await page.goto(path);
  await settled(page);
  await page.screenshot({ path: join(OUT, `${name}.png`) });
  await context.close();
}

const folder = await mkdtemp(join(tmpdir(), 'rollcall-pictures-'));
const estate = await startEstate(folder);
const browser = await launchBrowser();
try {
  await fill(estate);
  for (const [name, path] of Object.entries(await views(estate))) await take(browser, estate.address, name, path);
} finally {
  await browser.close();
  await estate.close();
  await rm(folder, { recursive: true, force: true });
}
