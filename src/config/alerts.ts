import ms from 'ms';
import * as z from 'zod';
import { CONCERNS, type ConcernKind } from '../concern.ts';
import { suggestion } from '../kernel/spelling.ts';
import { ALERT_FORMATS, type AlertHook, type AlertRules, type AlertsConfig } from './config.ts';
import { duration, flag, httpUrl, label, signingSecret, variable, whole } from './formats.ts';
import { section } from './section.ts';

const MINUTE = 60_000;

/** How long each must last before people hear of it. */
const AFTER: Readonly<Record<ConcernKind, number>> = {
  endpointDead: MINUTE,
  endpointRefusing: 0,
  endpointPaused: 0,
  deadLetters: MINUTE,
  queueFull: MINUTE,
  backlogOld: 0,
  sourceDiscards: MINUTE,
  runHeld: 0,
  runFailed: 0,
  runOverdue: 5 * MINUTE,
  unusualSize: 0,
  audienceOrphaned: 5 * MINUTE,
};

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

/** A rule: on, off, or on with options. */
function rule<S extends z.core.$ZodShape>(kind: ConcernKind, description: string, further: S) {
  const after = duration.prefault(ms(AFTER[kind])).describe('How long it must last before people hear of it.');
  const options = section({ after, ...further });
  return z
    .union([options, off], 'must be true, false or a map of options')
    .optional()
    .meta({ title: 'true, false or a map', description });
}

const percent = z
  .string()
  .regex(/^\d+(\.\d+)?%$/, 'must be a percentage, such as 30%')
  .transform((text) => Number.parseFloat(text))
  .meta({ title: 'percentage' });

const rules = section({
  endpointDead: rule('endpointDead', 'An endpoint answers no request.', {}),
  endpointRefusing: rule(
    'endpointRefusing',
    'An endpoint refuses everything: its URL or secret seems to be wrong.',
    {},
  ),
  endpointPaused: rule('endpointPaused', 'An endpoint is paused, by a person or by its own 410.', {}),
  deadLetters: rule('deadLetters', 'A destination has dead letters.', {
    moreThan: whole(0).prefault(0).describe('Only with more of them.'),
  }),
  queueFull: rule('queueFull', 'The queue of a destination is full.', {}),
  backlogOld: rule('backlogOld', 'Deliveries wait too long for their first try, although an endpoint is open.', {
    olderThan: duration.prefault('15m').describe('How long the oldest may wait.'),
  }),
  sourceDiscards: rule('sourceDiscards', 'Much of what a source sends is not taken.', {
    moreThan: percent.prefault('10%').describe('The part of its messages of ten minutes that counts as much.'),
  }),
  runHeld: rule('runHeld', 'A run is held for a person.', {}),
  runFailed: rule('runFailed', 'A run has failed.', {}),
  runOverdue: rule('runOverdue', 'An audience was due and nothing began.', {}),
  unusualSize: rule(
    'unusualSize',
    'A run left an audience or trait with another size than usual (docs/alerts.md#sizes).',
    {
      by: percent.prefault('30%').describe('How far off the usual size it must be at least.'),
    },
  ),
  audienceOrphaned: rule('audienceOrphaned', 'An audience is gone from the configuration and was not retired.', {}),
} satisfies Record<ConcernKind, z.ZodType>);

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

const DEFAULT_KEEP = 90 * 24 * 60 * MINUTE;

/** Rules count even if there is nobody to tell: the pages show concerns, too. */
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
  const rule = given[kind] ?? {};
  const moreThan = kind === 'sourceDiscards' ? 10 : 0;
  const usual = { after: AFTER[kind], moreThan, olderThan: 15 * MINUTE, by: 30 };
  return rule === false ? { ...usual, isOn: false } : { ...usual, ...rule, isOn: true };
}

/** Those that have no name get their format's, numbered where it is taken. */
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

/** The chats' own hosts take nothing but their own form. */
function formatOf(url: string): AlertHook['format'] {
  const { hostname, pathname } = new URL(url);
  if (hostname === 'hooks.slack.com') return 'slack';
  if (/(^|\.)discord(app)?\.com$/.test(hostname) && pathname.startsWith('/api/webhooks/')) return 'discord';
  return /\.(webhook\.office\.com|logic\.azure\.com|api\.powerplatform\.com)$/.test(hostname) ? 'teams' : 'json';
}
