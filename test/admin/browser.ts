import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { HtmlValidate } from 'html-validate';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import type { Test } from 'tap';
import { ADMIN } from '../helpers/admin.ts';

/** Longer than anything takes on a busy machine, in milliseconds. */
const PATIENCE = 300_000;
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export interface Visit {
  readonly page: Page;
  /** Complaints of the page, and hosts that it asked beside its own. */
  readonly complaints: string[];
  /** Loads an address. */
  go(path: string): Promise<void>;
  /** Goes to an address as a link within the pages does, which takes a third of the CPU. What was kept of it may show first. */
  show(path: string): Promise<void>;
}

/** Complains if what has the focus goes away, and the browser gives it to the whole page. */
const WATCH_FOCUS = `let last;
  addEventListener('focusin', ({ target }) => { last = target; });
  const look = () => {
    if (!last || last.isConnected || document.activeElement !== document.body) return;
    console.error('The focus went with ' + last.outerHTML.slice(0, 200));
    last = undefined;
  };
  new MutationObserver(() => setTimeout(look)).observe(document, { childList: true, subtree: true });`;

/** A window on a service, signed in unless `token` is null. */
export async function visit(
  t: Test,
  browser: Browser,
  address: string,
  { token = ADMIN.token, ...options }: BrowserContextOptions & { readonly token?: string | null } = {},
): Promise<Visit> {
  const context = await browser.newContext({ baseURL: address, reducedMotion: 'reduce', ...options });
  t.teardown(() => context.close());
  if (token !== null) await context.request.post('/api/v1/session', { data: { token } });
  await context.addInitScript(WATCH_FOCUS);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const complaints: string[] = [];
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(`${message.text()} ${message.location().url}`);
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  context.on('request', (request) => {
    if (!request.url().startsWith(address)) complaints.push(`asked ${request.url()}`);
  });
  return {
    page,
    complaints,
    async go(path) {
      await page.goto(path);
      await settled(page);
    },
    async show(path) {
      await page.evaluate(`history.pushState({}, '', ${JSON.stringify(path)});
        dispatchEvent(new PopStateEvent('popstate')); new Promise(requestAnimationFrame)`);
      await settled(page);
    },
  };
}

/** Resolves once the page has what it asked for. */
export async function settled(page: Page): Promise<void> {
  await page.locator('h1').first().waitFor();
  await page.locator('.waiting, .stale, .chart[aria-busy="true"]').first().waitFor({ state: 'detached' });
}

/** Faults of a page for people who can't see it well, or use no mouse. */
export async function axeFindings(page: Page): Promise<readonly string[]> {
  // To load it takes as long as to use it.
  if (!(await page.evaluate('"axe" in globalThis'))) await page.evaluate(AXE);
  const found = await page.evaluate(`axe.run(document, { resultTypes: ['violations'] })`);
  const { violations } = found as { violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] };
  return violations.flatMap(({ id, nodes }) =>
    nodes.slice(0, 3).map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`),
  );
}

const validator = new HtmlValidate({
  extends: ['html-validate:recommended'],
  rules: {
    // The browser writes the markup; its style is not ours.
    ...{
      'attribute-boolean-style': 'off',
      'attribute-empty-style': 'off',
      'doctype-style': 'off',
      'void-style': 'off',
    },
    'no-trailing-whitespace': 'off',
    // On phones tables are drawn as cards, which takes their roles from them.
    'no-redundant-role': 'off',
    // Titles have names of people.
    'long-title': 'off',
  },
});

/** Faults of the markup that the scripts have drawn. */
export async function markupFindings(page: Page): Promise<readonly string[]> {
  const { results } = await validator.validateString(await page.content());
  return results.flatMap(({ messages }) =>
    messages.map(({ ruleId, message, selector }) => `${ruleId}: ${message} ${selector}`),
  );
}
