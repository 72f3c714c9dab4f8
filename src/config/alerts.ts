import mapValues from 'lodash/mapValues.js';
import ms from 'ms';
import * as z from 'zod';
import { CONCERNS, type ConcernKind, RULES } from '../concern.ts';
import { suggestion } from '../kernel/spelling.ts';
import { ALERT_FORMATS, type AlertHook, type AlertRules, type AlertsConfig } from './config.ts';
import { duration, flag, httpUrl, label, signingSecret, variable, whole } from './formats.ts';
import { section } from './section.ts';

const format = z
  .enum(ALERT_FORMATS, {
    error: ({ input }) => `is no form of notice${suggestion(input, ALERT_FORMATS)}`,
  })
  .optional()
  .describe(
    '`json` is a track call; the others are what the hooks of a chat take. By the host of the URL unless given.',
  );

const hook = section({
  url: httpUrl.meta({
    description: 'The webhook that notices are posted to.',
    examples: [`https://hooks.slack.com/services/${variable('SLACK_HOOK')}`],
  }),
  name: label.optional().describe('Its destination is `rollcall:alerts:NAME`. The format unless given.'),
  format,
  secret: signingSecret.optional().meta({ description: 'Signs the notices.', examples: [variable('ALERTS_SECRET')] }),
});
const shorthand = httpUrl.transform((url) => hook.parse({ url }));
const NOTIFY = 'must be a URL, or { url, format, secret }, or a list of them';
const hooks = z
  .union(
    [shorthand, hook, z.array(z.union([shorthand, hook], 'must be a URL, or { url, format, secret }')).min(1, NOTIFY)],
    {
      error: NOTIFY,
    },
  )
  .meta({
    title: 'URL, map, or a list',
    description:
      'Where notices go: a URL, or the settings below it, or a list. Without it alerts are on the pages only.',
  });

const off = flag.transform((isOn) => (isOn ? {} : false));

const percent = z
  .string()
  .regex(/^\d+(\.\d+)?%$/, 'must be a percentage, such as 30%')
  .transform((text) => Number.parseFloat(text))
  .meta({ title: 'percentage' });

/** The schema of each form of setting. */
const FORMS = {
  count: (initial: number) => whole(0).prefault(initial),
  duration: (initial: number) => duration.prefault(ms(initial)),
  percent: (initial: number) => percent.prefault(`${initial}%`),
};

/** A rule: on, off, or on with options. */
const rules = section(
  mapValues(RULES, ({ when, after, settings }) => {
    const options = section({
      after: FORMS.duration(after).describe('How long it must last before it is announced.'),
      ...mapValues(settings, ({ form, initial, meaning }) => FORMS[form](initial).describe(meaning)),
    });
    return z
      .union([options, off], 'must be true, false or a map of options')
      .optional()
      .meta({ title: 'true, false or a map', description: when });
  }),
);

/** `alerts` of the file. */
export const alerts = section({
  notify: hooks.optional(),
  link: httpUrl.optional().meta({
    description: 'Where people reach the pages: notices link to what they are about.',
    examples: ['https://rollcall.example.com'],
  }),
  keep: duration.prefault('90d').describe('How long alerts that are over are kept.'),
  rules: rules.prefault({}),
});

const DEFAULT_KEEP = 90 * 24 * 60 * 60_000;

/** Rules apply even without hooks, since the pages show concerns, too. */
export function alertsOf(file: z.output<typeof alerts> | undefined): AlertsConfig {
  const { notify = [], link = null, keep = DEFAULT_KEEP, rules: given = rules.parse({}) } = file ?? {};
  return {
    isOn: file !== undefined,
    hooks: named([notify].flat()),
    link: link === null ? null : link.replace(/\/+$/, ''),
    keep,
    rules: Object.fromEntries(CONCERNS.map((kind) => [kind, ruleOf(kind, given)])) as unknown as AlertRules,
  };
}

function ruleOf(kind: ConcernKind, given: z.output<typeof rules>) {
  const { after, settings } = RULES[kind];
  const usual = { after, ...mapValues(settings, ({ initial }) => initial) };
  const rule = given[kind] ?? {};
  return rule === false ? { ...usual, isOn: false } : { ...usual, ...rule, isOn: true };
}

/** Names unnamed hooks after their format, numbered if the name is taken. */
function named(given: readonly z.output<typeof hook>[]): readonly AlertHook[] {
  const taken = new Set(given.map(({ name }) => name));
  return given.map(({ url, format = formatOf(url), name, secret = null }) => {
    const own = name ?? freeName(format, taken);
    taken.add(own);
    return { name: own, format, url, secret };
  });
}

function freeName(format: string, taken: ReadonlySet<string | undefined>, number = 1): string {
  const name = number === 1 ? format : `${format} ${number}`;
  return taken.has(name) ? freeName(format, taken, number + 1) : name;
}

/** The hosts of chats accept only their own format. */
function formatOf(url: string): AlertHook['format'] {
  const { hostname, pathname } = new URL(url);
  if (hostname === 'hooks.slack.com') return 'slack';
  if (/(^|\.)discord(app)?\.com$/.test(hostname) && pathname.startsWith('/api/webhooks/')) return 'discord';
  return /\.(webhook\.office\.com|logic\.azure\.com|api\.powerplatform\.com)$/.test(hostname) ? 'teams' : 'json';
}
