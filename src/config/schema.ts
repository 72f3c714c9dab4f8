import * as z from 'zod';
import { SIGNINGS } from '../destination.ts';
import { IP_MODES } from '../ip.ts';
import { MESSAGE_TYPES } from '../message-types.ts';
import { suggestion } from '../spelling.ts';
import { RIGHTS } from './config.ts';
import { value, when } from './definitions.ts';
import {
  duration,
  flag,
  headers,
  httpUrl,
  label,
  positive,
  postgresUrl,
  range,
  rate,
  schedule,
  secret,
  storeUrl,
  text,
  threshold,
  timezone,
  traitKey,
  whole,
} from './formats.ts';
import { section } from './section.ts';

const oneOrMore = <T extends z.ZodType>(item: T, error: string) =>
  z.union([item, z.array(item).min(1, error)], error).transform((value) => (Array.isArray(value) ? value : [value]));

const webhook = section({
  url: httpUrl.describe('Full URL, http or https'),
  headers: headers.default({}).describe('Static headers, at most 5'),
  batch: section({
    size: whole(1, 5_000).default(500).describe('Messages in a request at most'),
    wait: duration.default(200).describe('For how long a message waits for others'),
  })
    .optional()
    .describe('Puts several messages into one request; the receiver has to know batches'),
});

const messageType = z.enum(MESSAGE_TYPES, {
  error: ({ input }) => `is no kind of message${suggestion(String(input), MESSAGE_TYPES)}`,
});

const destination = section({
  name: label.describe('Names the destination in logs, dead letters and on the command line'),
  sources: z.array(text).min(1, 'needs at least one source').describe('Ids of the sources connected to it'),
  enabled: flag.default(true).describe('A disabled destination keeps its pending deliveries waiting'),
  types: z.array(messageType).optional().describe('Kinds of messages that it gets; all unless given'),
  events: z.array(text).optional().describe('Names of the track events that it gets; all unless given'),
  audiences: z
    .array(text)
    .optional()
    .describe('Keys of the audiences and traits that it hears of; all unless given, [] for none'),
  sharedSecret: oneOrMore(secret, 'must be a secret, or a list of secrets while rotating')
    .optional()
    .describe('Signs every request. A list while rotating: the first makes X-Signature, each one a webhook-signature'),
  signing: z
    .enum(SIGNINGS, `must be one of ${SIGNINGS.join(', ')}`)
    .default('x-signature')
    .describe('X-Signature, the headers of Standard Webhooks, or both'),
  webhooks: z
    .array(webhook)
    .min(1, 'needs at least one webhook')
    .max(5, 'may have at most 5 webhooks')
    .optional()
    .describe('1 to 5 URLs that every message is posted to'),
  webhookUrl: httpUrl.optional().describe('Short for a list of one webhook'),
  require: z.enum(['any', 'all']).default('any').describe('Whose success delivers a message'),
  rateLimit: rate.optional().describe('Deliveries started at most, such as 100/s'),
}).meta({ oneOf: [{ required: ['webhooks'] }, { required: ['webhookUrl'] }] });

const guard = section({
  maxExits: threshold
    .refine((limit) => !('percent' in limit) || limit.percent <= 100, 'must be at most 100%: no more can leave')
    .optional()
    .describe('More exits than this hold the run: a count, or a percentage of the members'),
  maxEntries: threshold.optional().describe('More entries than this hold the run'),
  minMembers: whole(0).default(0).describe('The thresholds count only from so many members on'),
  allowEmpty: flag.default(false).describe('Lets an empty result pass over a snapshot that is not empty'),
});

const expectation = section({
  freshness: section({
    column: text.describe('A date or time among the columns of the result; a trait does not send it'),
    within: duration.describe("Its greatest value may be this much older than the run's time"),
  }).optional(),
  minRows: whole(1).optional().describe('Fewer rows than this hold the run, the first one too'),
  maxChange: threshold
    .optional()
    .describe('More users who enter, leave or change than this hold the run: a count, or a percentage of the members'),
});

const computation = {
  name: text,
  key: traitKey.optional().describe("The trait's key in bodies; snake_case of the name unless given"),
  engine: text.optional().describe('One of engines; the first unless given'),
  source: text.describe('The source that its messages speak as'),
  schedule: schedule.optional().describe('node-cron expression; without one only `sync --once` runs it'),
  timezone: timezone.optional().describe('Time zone of the schedule; that of the machine unless given'),
  sql: text.optional().describe('A single query that returns user_id; $now is the time of the run, a UTC TIMESTAMP'),
  live: flag
    .refine((isLive) => !isLive, 'is not there yet. Give it a schedule, such as "* * * * *" for every minute')
    .optional(),
  timeout: positive(duration.prefault('1h'), 'must be longer than nothing').describe(
    'How long its SQL may take; then it is cancelled, and the run has failed',
  ),
  paused: flag.default(false).describe('No runs while it is true'),
  guard: guard.prefault({}),
  expect: expectation.prefault({}),
};

const audience = section({ ...computation, when: when.optional() }).meta({
  oneOf: [{ required: ['sql'] }, { required: ['when'] }],
});
const trait = section({ ...computation, value: value.optional() }).meta({
  oneOf: [{ required: ['sql'] }, { required: ['value'] }],
});

const concurrency = (runs: number) =>
  whole(1, 100).default(runs).describe('Runs at once at most; others wait for their turn');

const engine = z.discriminatedUnion(
  'type',
  [
    section({
      type: z.literal('duckdb'),
      path: text.default('./audiences.duckdb').describe('File of the snapshots'),
      memoryLimit: z
        .string()
        .regex(/^\d+(\.\d+)? ?[KMGT]i?B$/i, 'must be a size such as 2GB')
        .optional()
        .describe('As DuckDB takes it, such as 2GB'),
      threads: whole(1, 1024).optional(),
      concurrency: concurrency(2),
    }),
    section({ type: z.literal('postgres'), url: postgresUrl, concurrency: concurrency(4) }),
    section({
      type: z.literal('module'),
      module: text.describe('A file that begins with ./ or /, or a package, that exports openEngine'),
      options: z.record(z.string(), z.unknown()).default({}).describe('What the module is opened with'),
      concurrency: concurrency(4),
    }),
  ],
  { error: 'needs a type: duckdb, postgres or module' },
);

/** The configuration file (docs/configuration.md), as `rollcall config schema` prints it. */
export const fileSchema = section({
  serviceName: z
    .string()
    .regex(/^[\w!#$%&'*+.^`|~-]+$/, 'must be a single word: it becomes the header User-Agent: NAME/1.0')
    .default('Rollcall')
    .describe('Header User-Agent: NAME/1.0'),
  store: z
    .union(
      [
        storeUrl,
        section({
          url: storeUrl.default('sqlite:./rollcall.db'),
          maxQueued: whole(1).default(1_000_000).describe('Undelivered messages per destination at most'),
        }),
      ],
      'must be a URL such as sqlite:./rollcall.db, or { url, maxQueued }',
    )
    .default('sqlite:./rollcall.db'),
  listen: section({
    host: text.default('127.0.0.1'),
    port: whole(0, 65535).default(8080),
    trustedProxies: z
      .array(range)
      .default([])
      .describe('Addresses of proxies whose X-Forwarded-For, -Proto and -Host are believed; none by default'),
  }).prefault({}),
  network: section({
    allow: z.array(range).default([]).describe('Private ranges that endpoints may resolve to; refused otherwise'),
    ca: oneOrMore(text, 'must be a PEM file, or a list of them')
      .default([])
      .describe('PEM files of certificate authorities trusted besides the public ones'),
    proxy: httpUrl.optional().describe('HTTP proxy for all deliveries'),
  }).prefault({}),
  admin: section({
    token: secret.optional().describe('One token with all rights, named admin'),
    tokens: z
      .array(
        section({
          name: label.describe('Stands in the audit log'),
          token: secret,
          may: z
            .array(z.enum(RIGHTS, `must be some of ${RIGHTS.join(', ')}`))
            .min(1, `needs some of ${RIGHTS.join(', ')}`)
            .describe('read: look; operate: change what runs; delete: file deletion requests'),
        }),
      )
      .default([])
      .describe('Tokens with a name and rights of their own'),
  })
    .prefault({})
    .describe('For /regulations, /api, /metrics and the pages; without a token they answer on loopback only'),
  sources: z
    .array(
      section({
        id: label,
        writeKey: z.string().min(1, 'must not be empty').describe('What clients prove themselves with'),
        enabled: flag.default(true),
        rateLimit: rate.optional().describe('Requests to the collection API at most, such as 100/s'),
        ip: z
          .enum(IP_MODES, 'must be keep, anonymise or drop')
          .default('keep')
          .describe(
            "What becomes of context.ip; with keep and anonymise a browser's address is added where it is missing",
          ),
      }),
    )
    .min(1, 'needs at least one source'),
  destinations: z.array(destination).default([]),
  engines: z.record(label, engine).default({}).describe('A DuckDB engine named lake, if none is given'),
  audiences: z.array(audience).default([]),
  traits: z.array(trait).default([]),
  delivery: section({
    removedAfter: positive(
      duration.prefault('24h'),
      'must be longer than nothing: a process that is replaced is away for a while',
    ).describe('Deliveries of a destination become dead letters when no process has known it for so long'),
  }).prefault({}),
  attempts: section({ keep: duration.prefault('7d').describe('How long the attempt log goes back') }).prefault({}),
  runs: section({ keep: duration.prefault('90d').describe('How long the history of runs goes back') }).prefault({}),
  regulations: section({
    keep: duration.prefault('365d').describe('How long deletion requests that are over are kept'),
  }).prefault({}),
  audit: section({ keep: duration.prefault('365d').describe('How long the audit log goes back') }).prefault({}),
  eventLog: section({
    keep: positive(duration.prefault('400d'), 'must be longer than nothing').describe(
      'How long events are kept, by the day on which they were received',
    ),
    path: text.default('./events').describe('Folder of its files; with a Postgres store the log is a table'),
    sources: z.array(text).min(1, 'needs at least one source').optional().describe('Whose events; all unless given'),
  })
    .optional()
    .describe('Keeps what is collected, so that audiences can be computed from it; absent, no log is kept'),
  notify: section({ url: httpUrl, secret: secret.optional() })
    .optional()
    .describe('A webhook that held, failed and overdue runs are announced to'),
  log: section({
    level: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
  }).prefault({}),
});

/** The file's content, checked, defaults filled. */
export type ConfigFile = z.output<typeof fileSchema>;

/** JSON Schema of the file, for editors. */
export function configJsonSchema(): object {
  return z.toJSONSchema(fileSchema, { io: 'input' });
}
