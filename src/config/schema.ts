import * as z from 'zod';
import { IP_MODES } from '../kernel/ip.ts';
import { alerts } from './alerts.ts';
import { audience, trait } from './computation-schema.ts';
import { NAMED_RIGHTS } from './config.ts';
import { destination } from './destination-schema.ts';
import { engine } from './engine-schema.ts';
import {
  bearerToken,
  duration,
  flag,
  httpUrl,
  label,
  oneOrMore,
  positive,
  range,
  rate,
  serverUrl,
  signingSecret,
  size,
  storeUrl,
  text,
  variable,
  whole,
  writeKey,
} from './formats.ts';
import { DEFAULT_STORE } from './outline.ts';
import { section } from './section.ts';

const NOTIFY = 'is not a known key here: write alerts: { notify: … } (docs/alerts.md)';

/** Wider patterns could walk over a whole disk. */
export const includePattern = text
  .regex(/^[^[\]{}()!\\]*$/, 'may have * and ? only, no brackets, braces or !')
  .refine((pattern) => !pattern.includes('**'), 'may not have **: name each folder, such as teams/*/*.yaml')
  .meta({ title: 'pattern' });

/** The configuration file (docs/configuration.md), as `rollcall config schema` prints it. */
export const fileSchema = section(
  {
    include: z
      .array(includePattern)
      .min(1, 'needs at least one pattern')
      .optional()
      .meta({
        title: 'list of patterns',
        description:
          'Files with more `sources`, `destinations`, `audiences`, `traits` and `engines` (docs/teams.md#several-files).',
        examples: [['audiences/*.yaml']],
      }),
    serviceName: z
      .string()
      .regex(/^[\w!#$%&'*+.^`|~-]+$/, 'must be a single word: it becomes the header User-Agent: NAME/1.0')
      .default('Rollcall')
      .meta({ title: 'one word', description: 'Webhooks carry `User-Agent: NAME/1.0`.' }),
    store: z
      .union(
        [
          storeUrl,
          section({
            url: storeUrl.default(DEFAULT_STORE).describe('As `store`.'),
            maxQueued: whole(1)
              .prefault(1_000_000)
              .describe(
                'The most untried deliveries per destination. More are held out as `queue_full` (docs/delivery.md#full-queues).',
              ),
          }),
        ],
        'must be a URL such as sqlite:./rollcall.db, or { url, maxQueued }',
      )
      .prefault(DEFAULT_STORE)
      .meta({
        title: 'URL, or a map',
        description: 'Where messages are kept: `sqlite:PATH`, `sqlite::memory:` or `postgres://…`.',
        examples: ['postgres://rollcall@db/rollcall'],
      }),
    files: section({
      group: flag
        .prefault(false)
        .describe(
          'The group may read the files of store, engines, event log and copies (0640, folders 0750). Otherwise only their owner may (0600, 0700).',
        ),
    }).prefault({}),
    listen: section({
      host: text
        .default('127.0.0.1')
        .describe('Address for messages, deletion requests and people; `localhost` is `127.0.0.1` and `::1`.'),
      port: whole(0, 65535).prefault(8080).describe('0 takes a free port and prints it.'),
      trustedProxies: z
        .array(range)
        .default([])
        .meta({
          title: 'list of addresses or ranges',
          description:
            'Your proxies. Rollcall believes the `X-Forwarded-For`, `-Proto` and `-Host` of nobody else. Their connections have no limit of their own.',
          examples: [['127.0.0.1']],
        }),
    }).prefault({}),
    network: section({
      allow: z
        .array(range)
        .default([])
        .meta({
          title: 'list of addresses or ranges',
          description: 'Private addresses that endpoints may resolve to. Others are refused (`address_refused`).',
          examples: [['10.20.0.0/16']],
        }),
      ca: oneOrMore(text, 'must be a PEM file, or a list of them')
        .default([])
        .meta({
          title: 'path, or a list',
          description: 'PEM files of authorities that are trusted besides the public ones.',
          examples: ['./ca.pem'],
        }),
      proxy: httpUrl
        .optional()
        .meta({ description: 'An HTTP proxy for all deliveries.', examples: ['http://proxy.internal:3128'] }),
    }).prefault({}),
    admin: section({
      token: bearerToken
        .optional()
        .meta({ description: 'One token with all rights, named `admin`.', examples: [variable('ADMIN_TOKEN')] }),
      tokens: z
        .array(
          section({
            name: label.meta({ description: 'Appears in the audit log.', examples: ['grafana'] }),
            token: bearerToken.meta({ description: 'The token itself.', examples: [variable('GRAFANA_TOKEN')] }),
            may: z
              .array(z.enum(NAMED_RIGHTS, `must be some of ${NAMED_RIGHTS.join(', ')}`))
              .min(1, `needs some of ${NAMED_RIGHTS.join(', ')}`)
              .meta({
                title: 'list of rights',
                description:
                  '`read` looks, `operate` changes what runs, `delete` files deletion requests. None includes another.',
                examples: [['read']],
              }),
          }),
        )
        .default([])
        .meta({ title: 'list', description: 'More tokens, each with a name and rights (docs/management.md).' }),
      tokenFile: text
        .default('./rollcall.token')
        .describe('Without `token` and `tokens`, the token is in this file; the first process that serves makes it.'),
      openMetrics: flag.prefault(false).describe('`true` lets everyone read `/metrics`, without a token.'),
    })
      .prefault({})
      .describe('Protects `/regulations`, `/api`, `/metrics` and the pages (docs/management.md#tokens).'),
    sources: z
      .array(
        section({
          id: label.meta({ description: 'Names the source.', examples: ['shop'] }),
          writeKey: writeKey.describe(
            'Clients send it to prove which source they are. Each source has its own. It must not have a colon.',
          ),
          enabled: flag.prefault(true).describe('A disabled source is answered 403.'),
          rateLimit: rate
            .optional()
            .describe('The most requests to the collection API. More are answered 429 with `Retry-After`.'),
          ip: z
            .enum(IP_MODES, 'must be keep, anonymise or drop')
            .default('keep')
            .describe(
              'What happens to `context.ip`. `anonymise` clears the last byte of IPv4 and all but 48 bits of IPv6. ' +
                'Unless it is `drop`, the address of browsers (docs/collection.md#browsers) is added where it is missing.',
            ),
        }),
      )
      .min(1, 'needs at least one source')
      .describe('Where messages come from. At least one.'),
    destinations: z.array(destination).default([]).describe('Where messages go.'),
    engines: z
      .record(label, engine)
      .default({})
      .describe('Databases that compute audiences. Without any there is a DuckDB engine `lake`.'),
    audiences: z.array(audience).default([]).describe('The audiences, each with its definition.'),
    traits: z.array(trait).default([]).describe('Values computed for each user.'),
    delivery: section({
      removedAfter: positive(
        duration.prefault('24h'),
        'must be longer than nothing: a process that is replaced is away for a while',
      ).describe(
        'How long deliveries of a destination that no process knows are kept, before they become dead letters ' +
          '(docs/delivery.md#processes-of-different-configurations). Only time in which processes ran counts.',
      ),
    }).prefault({}),
    messages: section({
      keep: duration
        .prefault('0s')
        .describe(
          'How long messages that were delivered are kept with their bodies, so that they can be found and sent again. ' +
            'With 0s only their ids are, in the attempt log.',
        ),
      maxSize: size
        .prefault('10GB')
        .describe(
          'The room that they may take in the store, whatever `keep` says. Beyond it the oldest go first ' +
            '(docs/management.md#messages).',
        ),
    }).prefault({}),
    attempts: section({ keep: duration.prefault('7d').describe('How long the attempt log goes back.') }).prefault({}),
    runs: section({
      keep: duration
        .prefault('90d')
        .describe(
          'How long the history of runs goes back. The newest of each audience stays, and any that is unfinished or undelivered.',
        ),
    }).prefault({}),
    regulations: section({
      keep: duration
        .prefault('365d')
        .describe('How long finished deletion requests are kept. Open ones stay, and so does who is suppressed.'),
    }).prefault({}),
    audit: section({ keep: duration.prefault('365d').describe('How long the audit log goes back.') }).prefault({}),
    eventLog: section({
      keep: positive(duration.prefault('400d'), 'must be longer than nothing').describe(
        'How long events are kept, by the day on which they were received.',
      ),
      path: text
        .regex(/^(?!s3:)|^s3:\/\/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](\/[\w!.*'()/=-]*)?$/, 'must be s3://BUCKET/PREFIX')
        .default('./events')
        .describe(
          'Folder of its files, or `s3://BUCKET/PREFIX` (docs/event-log.md#in-object-storage). With a Postgres store the log is a table.',
        ),
      region: text.optional().meta({ description: 'Of the bucket; else `AWS_REGION`.', examples: ['eu-central-1'] }),
      endpoint: serverUrl.optional().meta({
        description: 'Server of the bucket, if it is not that of AWS.',
        examples: ['https://minio.internal:9000'],
      }),
      credentials: section({
        keyId: text.meta({ description: 'The access key.', examples: [variable('S3_KEY_ID')] }),
        secret: signingSecret.meta({ description: 'Its secret.', examples: [variable('S3_SECRET')] }),
        token: signingSecret
          .optional()
          .meta({ description: 'Of a session, if the key is for one.', examples: [variable('S3_TOKEN')] }),
      })
        .optional()
        .describe('Of the bucket; else those in `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`.'),
      cache: section({
        path: text.default('./events-cache').describe('Folder for copies of files in the bucket.'),
        maxSize: size.prefault('10GB').describe('Its size, unless SQL needs more at once.'),
      }).prefault({}),
      sources: z
        .array(text)
        .min(1, 'needs at least one source')
        .optional()
        .meta({ title: 'list of ids', description: 'Whose events are kept; all unless given.', examples: [['shop']] }),
    })
      .optional()
      .describe(
        'Keeps what is collected, so that audiences can be computed from it (docs/event-log.md). Absent, no log is kept.',
      ),
    alerts: alerts.optional().meta({
      title: 'map',
      description: 'Tells people what needs them, and when it is over: see [alerts](#alerts).',
    }),
    log: section({
      level: z
        .enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'])
        .default('info')
        .describe('Which lines are logged; `debug` has every attempt.'),
    }).prefault({}),
  },
  (key) => (key === 'notify' ? NOTIFY : undefined),
);

/** The checked content of the file, with defaults. */
export type ConfigFile = z.output<typeof fileSchema>;

/** An included file. */
const includedFileSchema = fileSchema
  .pick({ sources: true, destinations: true, audiences: true, traits: true, engines: true })
  .partial({ sources: true });

/** JSON Schema of the file, or of those that it includes, for editors. */
export function configJsonSchema(isIncluded = false): object {
  return z.toJSONSchema(isIncluded ? includedFileSchema : fileSchema, {
    io: 'input',
    // zod omits examples of values that a schema transforms, such as durations.
    override: ({ zodSchema, jsonSchema }) => {
      const examples = z.globalRegistry.get(zodSchema)?.examples;
      if (examples !== undefined) jsonSchema.examples = examples as unknown[];
    },
  });
}
