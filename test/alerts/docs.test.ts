import { readFile } from 'node:fs/promises';
import t from 'tap';
import { CONCERNS, RULES } from '../../src/concern.ts';
import { holdPage, markdownTable } from '../helpers/made-page.ts';

const MINUTE = 60_000;
const INCIDENTS = 'docs/incidents.md';

/** How the configuration writes a setting. */
const FORMS = {
  count: String,
  duration: (initial: number) => `${initial / MINUTE}m`,
  percent: (initial: number) => `${initial}%`,
};

t.test('docs/alerts.md has every rule, with its settings', async (t) => {
  const rows = Object.entries(RULES).map(([kind, { when, after, settings = {} }]) => [
    `\`${kind}\``,
    when,
    after === 0 ? 'at once' : `${after / MINUTE} min`,
    Object.entries(settings)
      .map(([name, { form, initial }]) => `\`${name}: ${FORMS[form](initial)}\``)
      .join(', '),
  ]);
  holdPage(t, 'docs/alerts.md', { rules: markdownTable(['rule', 'when', '`after`', 'settings'], rows) });
});

t.test('the page of incidents has every rule, and the section that says what to do', async (t) => {
  const page = await readFile(new URL(`../../${INCIDENTS}`, import.meta.url), 'utf8');
  const rows = CONCERNS.map((kind) => {
    const { when, incident } = RULES[kind];
    t.ok(page.includes(`\n### ${incident}\n`), `${kind}: a section "${incident}"`);
    const anchor = incident
      .toLowerCase()
      .replaceAll(/[^\w ]/g, '')
      .replaceAll(' ', '-');
    return [`\`${kind}\``, when, `[${incident}](#${anchor})`];
  });
  holdPage(t, INCIDENTS, { rules: markdownTable(['rule', 'it means', 'do'], rows) });
});
