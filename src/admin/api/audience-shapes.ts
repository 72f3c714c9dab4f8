import * as z from 'zod';
import { DEAD_REASONS } from '../../kernel/dead-reasons.ts';
import { attempt } from './attempts.ts';
import { listPaging } from './list.ts';
import { run } from './run-shapes.ts';
import { about, instant, paging, pagingByUser, reason, reasonCounts, time } from './shapes.ts';

const todo = z.discriminatedUnion('do', [
  z.object({ do: z.literal('decide'), run: z.string(), reason: z.string() }),
  z.object({
    do: z.literal('repair'),
    run: z.string().describe('The last that failed.'),
    code: z.string(),
    reason: z.string(),
    since: time.describe('When the first of the failures in a row began.'),
  }),
  z.object({ do: z.literal('retire') }),
]);

const pause = z.object({ since: time, by: z.string() }).nullable();

export const audience = z.object({
  key: z.string(),
  kind: z.enum(['audience', 'trait']),
  engine: z.string(),
  source: z.string(),
  state: z.enum(['ok', 'new', 'held', 'failed', 'unfinished', 'paused', 'orphaned']),
  members: z.int().nullable().describe('After the last run that was done; null before the first.'),
  trend: z
    .array(z.int())
    .describe('Members after each of the last runs, or in each of the last hours of a live one, oldest first.'),
  lastRun: z
    .object({
      run: z.string(),
      state: z.string(),
      action: z.string(),
      startedAt: time,
      ms: z.number().nullable(),
      code: z.string().nullable(),
      reason: z.string().nullable(),
    })
    .nullable(),
  ordered: z
    .object({ action: z.string(), at: time })
    .nullable()
    .describe('An order that waits for its turn, in the process that answers.'),
  schedule: z.string().nullable(),
  nextRunAt: time.nullable(),
  paused: pause.describe('By a person; null where the configuration pauses it, too.'),
  overdueSince: time
    .nullable()
    .describe('The tick that was due when nothing began; of a live one, since when it has been behind.'),
  live: z
    .object({
      lag: z.number().nullable().describe('Milliseconds that it is behind; null while it has yet to be computed.'),
      progress: z
        .number()
        .nullable()
        .describe('While it is computed over the log, or anew: how much of that is done, from 0 to 1.'),
      ids: z.int().describe('Ids of which something is kept.'),
      due: z.int().describe('People for whom something may change by time alone.'),
      hold: z.string().nullable().describe('Why nothing is sent as it is computed.'),
    })
    .nullable()
    .describe('Null for what is not live.'),
  todo: todo.nullable().describe('The next step of a person.'),
  ...about,
});

const threshold = z.union([z.object({ count: z.number() }), z.object({ percent: z.number() })]).nullable();

export const definition = z.object({
  name: z.string(),
  timezone: z.string().nullable(),
  timeout: z.number().describe('Milliseconds.'),
  guard: z.object({
    maxExits: threshold,
    maxEntries: threshold,
    minMembers: z.int(),
    allowEmpty: z.boolean(),
  }),
  destinations: z.array(z.string()).describe('Those that hear of it.'),
  language: z.enum(['sql', 'yaml']).describe('YAML is a short definition, or a model of dbt.'),
  text: z.string().describe('As it is written, without values of variables.'),
  yaml: z.string().describe('The whole item, in the same way.'),
  version: z.string().describe('As `definitionHash` of runs.'),
  sentence: z.string().nullable().describe('A short definition in words; null for SQL and models of dbt.'),
});

export const standing = z.object({
  key: z.string(),
  kind: z.enum(['audience', 'trait']),
  destination: z.string(),
  state: z
    .enum(['new', 'current', 'later', 'to_come', 'lapsed', 'to_end'])
    .describe(
      'new: nothing was computed yet. current: it was sent every change. later: changes only, by `backfill: skip`. to_come: it is owed the whole membership. lapsed: it missed changes, and is owed the difference. to_end: it is owed the end.',
    ),
  since: time.nullable().describe('Of a lapsed one: from when on it lacks changes, if that is known.'),
  run: z
    .object({ id: z.string(), action: z.string(), sent: z.int(), members: z.int() })
    .nullable()
    .describe('A run that is being sent to it: messages so far, of one for each member in a backfill.'),
  pending: z.int().describe('Deliveries that wait for the destination, of all audiences.'),
  dead: z.int().describe('Its dead letters.'),
});

export const details = audience.extend({ definition: definition.nullable(), destinations: z.array(standing) });

export const plan = z.object({
  key: z.string(),
  kind: z.enum(['audience', 'trait']),
  first: z.boolean(),
  before: z.int(),
  members: z.int(),
  entered: z.int(),
  exited: z.int(),
  changed: z.int(),
  invalid: z.int(),
  duplicates: z.int(),
  messages: z.int(),
  destinations: z.array(z.string()),
  newcomers: z.array(z.string()),
  skipped: z.array(z.string()).describe('Those of `destinations` that get nothing of a first sync.'),
  owed: z
    .array(z.object({ destination: z.string(), reason, messages: z.int(), isDifference: z.boolean() }))
    .describe('Messages that single destinations get in addition.'),
  returning: z.array(z.string()),
  withdrawn: z.array(z.string()),
  filtered: z.array(z.string()),
  away: z.array(z.string()),
  calls: z.int().describe('POSTs, one per message and URL, or per full batch where a URL takes batches.'),
  estimatedMs: z.number().nullable(),
  held: z.string().nullable().describe('Why a guard or an expectation would hold it.'),
  renamedFrom: z.string().nullable(),
  retired: z.int(),
  paused: pause.describe('By a person: until they resume it, a sync passes over it.'),
  unfinished: z.array(z.object({ run: z.string(), state: z.string(), reason: z.string().nullable() })),
  reasons: reasonCounts,
  unnamed: z.array(z.string()).describe("Columns of an audience's result that nothing sends."),
  sample: z.array(z.unknown()).describe('Bodies as they would be sent.'),
});

export const member = z.object({ userId: z.string(), traits: z.unknown().optional() });
const deadLetter = z.object({
  id: z.string(),
  destination: z.string(),
  reason: z.enum(DEAD_REASONS),
  status: z.int().nullable().describe('HTTP status of the last answer.'),
});

export const storyChange = z.object({
  change: z.enum(['entered', 'left', 'changed', 'sent again']),
  reason: reason.nullable(),
  changedAt: time.nullable(),
  at: time.nullable(),
  run: z.string().nullable(),
  action: run.shape.action.nullable().describe('Of the run.'),
  definitionHash: z.string().nullable(),
  cause: z
    .union([
      z.object({ messageId: z.string() }),
      z.object({ audience: z.string() }),
      z.object({ computed: z.string() }),
      z.object({ deletion: z.literal(true) }),
      z.object({ time: z.string() }),
    ])
    .nullable()
    .describe('Of a live change, as in its context (docs/wire.md).'),
  event: z
    .object({ messageId: z.string(), type: z.string(), event: z.string().nullable(), timestamp: time })
    .nullable()
    .describe('The event that caused it.'),
  audience: z.string().nullable().describe('The SQL audience whose sync caused it.'),
  value: z.unknown().describe('From then on.'),
  told: z.array(
    z.object({
      destination: z.string(),
      reached: z.boolean(),
      attempt: attempt.nullable().describe('The one that reached it, or else the last.'),
      deadLetter: deadLetter.nullable(),
    }),
  ),
});

export const story = z.object({
  key: z.string(),
  user: z.string(),
  asOf: time.nullable(),
  member: z.boolean().nullable().describe('Null where nobody knows any more.'),
  value: z.unknown(),
  since: run.nullable().describe('The run that made it so.'),
  absence: z
    .object({
      reason: z.enum(['former', 'unknown', 'condition']),
      user: z.string().nullable(),
      failing: z.array(z.string()),
    })
    .nullable()
    .describe('Why the user is not in it, for a short definition.'),
  conditions: z
    .array(
      z.object({
        path: z.string(),
        condition: z.string(),
        says: z.string().nullable().describe('The condition in words; null where its variables do not allow it.'),
        passes: z.boolean(),
        times: z.int().nullable().describe('How often they did it, in its window.'),
        last: time.nullable(),
        value: z.unknown().describe('Their trait or computed value.'),
      }),
    )
    .describe('Of a short definition: each condition, and what the log knows of the user.'),
  steps: z
    .array(
      z.object({
        path: z.string(),
        condition: z.string(),
        event: z.object({ messageId: z.string(), event: z.string(), timestamp: time }).nullable(),
        until: time.nullable().describe('Of `not`: when its time has passed, or will have.'),
        isOver: z.boolean().describe('True once that time has passed.'),
      }),
    )
    .describe('Of the sequences in it, as far as the user came.'),
  changes: z.array(storyChange),
  unfinished: z.array(run).describe('Runs that are not done.'),
  attempts: z.array(attempt),
  deadLetters: z.array(deadLetter),
});

export const audienceParams = z.object({ key: z.string().describe('Of an audience or computed trait.') });
export const asOf = z.object({ now: instant.optional().describe("The run's time; without it, now.") });
export const audienceTag = 'Audiences';
export const listQuery = z.object({ ...listPaging, limit: paging.limit, state: audience.shape.state.optional() });
export const memberQuery = z.object(pagingByUser);
export const storyQuery = z.object({
  user: z.string().min(1),
  at: instant.optional().describe('As it was then.'),
});
