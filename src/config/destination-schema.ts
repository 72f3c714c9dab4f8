import * as z from 'zod';
import { BACKFILL_MODES, MEMBERSHIP_MODES, SIGNINGS } from '../destination.ts';
import { suggestion } from '../kernel/spelling.ts';
import { MESSAGE_TYPES } from '../message-types.ts';
import { about } from './about-schema.ts';
import {
  duration,
  flag,
  headers,
  httpUrl,
  label,
  oneOrMore,
  rate,
  signingSecret,
  text,
  traitKey,
  variable,
  whole,
} from './formats.ts';
import { section } from './section.ts';

const MOST_WEBHOOKS = 5;
const LONGEST_WAIT = 3_600_000;

const webhookShape = {
  url: httpUrl.meta({
    description: 'Where messages are posted: http or https.',
    examples: ['https://crm.example.com/hooks'],
  }),
  headers: headers.default({}).describe('Up to 5 static headers. They cannot replace those that Rollcall sets.'),
  batch: section({
    size: whole(1, 5_000).prefault(500).describe('The most messages in one request.'),
    wait: duration
      .refine((value) => value <= LONGEST_WAIT, 'must be at most 1h')
      .prefault('200ms')
      .describe('How long a message waits for others.'),
  })
    .optional()
    .describe(
      'Puts several messages into one request. The receiver has to support batches (docs/wire.md#batches-added).',
    ),
};
const webhook = section(webhookShape, (key): string | undefined =>
  Object.hasOwn(destinationShape, key) ? 'belongs to the destination, beside webhooks' : undefined,
);

/** The hint for keys of a webhook that were set on the destination. */
function inWebhooks(key: string): string | undefined {
  if (!Object.hasOwn(webhookShape, key)) return undefined;
  const keys = [...new Set(['url', key])].join(', ');
  return `belongs to a webhook: webhooks is a list of { ${keys} }, in place of webhookUrl`;
}

const messageType = z.enum(MESSAGE_TYPES, {
  error: ({ input }) => `is no kind of message${suggestion(input, MESSAGE_TYPES)}`,
});

const destinationShape = {
  name: label.meta({
    description: 'Names the destination in logs, dead letters and on the command line.',
    examples: ['crm'],
  }),
  sources: z
    .array(text)
    .min(1, 'needs at least one source')
    .meta({
      title: 'list of ids',
      description: 'The sources whose messages it gets.',
      examples: [['shop', 'personas']],
    }),
  enabled: flag.prefault(true).describe('A disabled destination gets nothing new, and its pending deliveries wait.'),
  types: z
    .array(messageType)
    .optional()
    .meta({
      title: 'list of kinds',
      description: 'The kinds of messages that it gets; all unless given (docs/delivery.md#filters).',
      examples: [['identify', 'track']],
    }),
  events: z
    .array(text)
    .optional()
    .meta({
      title: 'list of names',
      description: 'The track events that it gets; all unless given. Other kinds pass.',
      examples: [['Order Completed']],
    }),
  audiences: z
    .array(text)
    .optional()
    .meta({
      title: 'list of keys',
      description: 'The audiences and traits that it gets; all unless given, `[]` for none.',
      examples: [['big_spenders']],
    }),
  backfill: z
    .enum(BACKFILL_MODES, `must be one of ${BACKFILL_MODES.join(', ')}`)
    .default('send')
    .describe(
      'What it gets of an audience that is new, or new to it: `send` every member, or `skip` them, so that it gets later changes only.',
    ),
  membership: z
    .enum(MEMBERSHIP_MODES, `must be one of ${MEMBERSHIP_MODES.join(', ')}`)
    .default('identify')
    .describe(
      'How it gets changes of audiences and traits: as identify calls, as `Audience Entered` and other events, or as both.',
    ),
  columns: z
    .record(traitKey, z.enum(['plain', 'sha256'], 'must be plain or sha256'))
    .optional()
    .meta({
      title: 'map of names',
      description: 'The columns of audiences (`with`) that it gets, plain or hashed; all, plain, unless given.',
      examples: [{ email: 'sha256' }],
    }),
  sharedSecret: oneOrMore(signingSecret, 'must be a secret, or a list of secrets while rotating')
    .optional()
    .meta({
      description:
        'Signs every request. While you rotate it, give a list: the first makes `X-Signature`, each makes a `webhook-signature`.',
      examples: [variable('CRM_SECRET')],
    }),
  signing: z
    .enum(SIGNINGS, `must be one of ${SIGNINGS.join(', ')}`)
    .default('x-signature')
    .describe(
      'The signature headers: `X-Signature`, those of Standard Webhooks, or both. The latter two need a `sharedSecret`.',
    ),
  webhooks: z
    .array(webhook)
    .min(1, 'needs at least one webhook')
    // zod's own `max` would hide the mistakes in the webhooks.
    .refine((webhooks) => webhooks.length <= MOST_WEBHOOKS, {
      error: `may have at most ${MOST_WEBHOOKS} webhooks`,
      when: ({ value }) => Array.isArray(value),
    })
    .meta({ maxItems: MOST_WEBHOOKS })
    .optional()
    .meta({ title: 'list', description: '1 to 5 endpoints. Every message is posted to each of them.' }),
  webhookUrl: httpUrl.optional().describe('A single URL, in place of `webhooks`.'),
  require: z
    .enum(['any', 'all'])
    .default('any')
    .describe('A message counts as delivered once any endpoint accepted it, or once all did.'),
  rateLimit: rate
    .optional()
    .describe('The most deliveries started per `s`, `m` or `h`. In batches each message counts.'),
  ...about,
};
export const destination = section(destinationShape, inWebhooks).meta({
  oneOf: [{ required: ['webhooks'] }, { required: ['webhookUrl'] }],
});
