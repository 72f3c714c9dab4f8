import * as z from 'zod';
import { about } from './about-schema.ts';
import { value, when } from './definitions.ts';
import { duration, flag, positive, schedule, text, threshold, timezone, traitKey, whole } from './formats.ts';
import { section } from './section.ts';

const EMPTY = 'is empty: give it a value, or remove it';
const GUARD = 'must be limits such as { maxExits: 20% }, or off';
const guard = section({
  maxExits: threshold
    .refine((limit) => !('percent' in limit) || limit.percent <= 100, 'must be at most 100%: no more can leave')
    .optional()
    .describe('More exits than this hold the run. Percentages are of the members before it.'),
  maxEntries: threshold.optional().meta({ description: 'More entries than this hold the run.', examples: [5000] }),
  maxChanges: threshold
    .optional()
    .describe(
      'More members than this with other values or columns hold the run. Unless given, 50% for audiences, none for traits.',
    ),
  minMembers: whole(0)
    .optional()
    .describe(
      'The limits apply only if the audience had at least this many members. 0 with maxExits or maxEntries, else 100.',
    ),
  allowEmpty: flag
    .prefault(false)
    .describe('Whether an empty result may replace a snapshot that is not empty. Otherwise it holds the run.'),
});

const expectation = section({
  freshness: section({
    column: text.meta({
      description: 'A column of the result with a date or time. A trait does not send it.',
      examples: ['ordered_at'],
    }),
    within: duration.meta({
      description:
        'How much older than the run the newest value in that column may be. Those in the future are left out.',
      examples: ['26h'],
    }),
  })
    .optional()
    .describe('Holds the run if its data is old.'),
  minRows: whole(1)
    .optional()
    .meta({ description: 'Fewer rows than this hold the run, even the first one.', examples: [1000] }),
  maxChange: threshold
    .optional()
    .describe(
      'More users than this who enter, leave or change hold the run. Percentages are of the members before it.',
    ),
  dbt: z
    .literal('pass', { error: ({ input }) => (input === null ? EMPTY : 'must be pass') })
    .optional()
    .describe('Holds the run unless the model and its tests passed in the last build of dbt (docs/dbt.md).'),
  within: duration.optional().meta({
    description: 'How much older than the run the last build of dbt may be.',
    examples: ['26h'],
  }),
});

const computation = {
  name: text.meta({ description: 'The name that people know it by.', examples: ['Big Spenders'] }),
  key: traitKey
    .optional()
    .describe('The key in bodies; snake_case of the name unless given. Needed where that is empty or taken.'),
  engine: text.optional().meta({ description: 'One of `engines`; the first unless given.', examples: ['lake'] }),
  source: text.meta({
    description: 'The source that its messages come from. Destinations connected to it get them.',
    examples: ['personas'],
  }),
  schedule: schedule
    .optional()
    .describe('When it runs: five fields, or six with seconds first. Without one only `sync --once` runs it.'),
  timezone: timezone
    .optional()
    .describe('Time zone of the schedule; that of the machine unless given. Not with `live`.'),
  sql: text.optional().meta({
    description: 'One query that returns `user_id`. `$now` is the time of the run, a UTC `TIMESTAMP`.',
    examples: ['select user_id from orders'],
  }),
  sqlFile: text.optional().meta({
    description:
      'A file with the SQL, in place of `sql`. Its path is relative to the YAML file that names it. Variables in it are not filled in.',
    examples: ['big_spenders.sql'],
  }),
  dbt: section({
    project: text.meta({
      description: 'The folder of the dbt project, relative to the YAML file that names it.',
      examples: ['../analytics'],
    }),
    model: text.meta({ description: 'The name of the model, or its unique id.', examples: ['big_spenders'] }),
  })
    .optional()
    .describe('A model of dbt, in place of `sql` (docs/dbt.md). The engine must be where dbt builds it.'),
  live: flag
    .optional()
    .describe(
      'Computed as events come and time goes by, in place of a schedule (docs/live.md). Needs `when` or `value`.',
    ),
  timeout: positive(duration.prefault('1h'), 'must be longer than nothing').describe(
    'How long the SQL may take. Then it is cancelled, and the run fails with `sql_timeout`.',
  ),
  paused: flag.prefault(false).describe('While true, it does not run.'),
  allowPlaceholders: flag
    .prefault(false)
    .describe(
      'Whether ids that mean nobody, such as `undefined`, may be members (docs/definitions.md#ids-that-mean-nobody).',
    ),
  guard: z
    .union([z.string().refine((said) => said === 'off', GUARD), guard], {
      error: ({ input }) => (input === null ? EMPTY : GUARD),
    })
    .optional()
    .meta({
      title: 'off or a map',
      description:
        'Holds a run that changes too much (docs/audiences.md#guards); `off`: only an empty result. Unless given, ' +
        '`{ maxExits: 50%, minMembers: 100 }`.',
    }),
  expect: expectation
    .prefault({})
    .describe('Holds a run whose data looks wrong (docs/audiences.md#check-the-source-expect). Not with `live`.'),
  ...about,
};

const columns = z
  .union(
    [z.array(traitKey).min(1, 'needs a name'), z.record(traitKey, section({ trait: text }))],
    'must be a list of columns such as [email], or for a short definition a map such as { email: { trait: email } }',
  )
  .refine((given) => !Array.isArray(given) || new Set(given).size === given.length, 'names a column twice')
  .optional()
  .meta({
    title: 'list of names, or a map',
    description:
      'Columns of the result that go with each change (docs/audiences.md#columns); traits of the person for a short definition.',
    examples: [['email', 'plan']],
  });

const sends = z
  .enum(['membership', 'any'], 'must be membership or any')
  .optional()
  .describe('With `any`, a change of columns alone is sent too; `membership` unless given.');

const oneOf = (short: string) => ['sql', 'sqlFile', 'dbt', short].map((name) => ({ required: [name] }));

export const audience = section({ ...computation, when: when.optional(), with: columns, sends }).meta({
  oneOf: oneOf('when'),
});
export const trait = section({ ...computation, value: value.optional() }).meta({
  oneOf: oneOf('value'),
});
