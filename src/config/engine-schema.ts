import * as z from 'zod';
import { clickhouseUrl, mysqlUrl, postgresUrl, serverUrl, text, trinoUrl, variable, whole } from './formats.ts';
import { DEFAULT_SNAPSHOTS } from './outline.ts';
import { section } from './section.ts';
import { lakeShape } from './table-schema.ts';

const concurrency = (runs: number) =>
  whole(1, 100)
    .prefault(runs)
    .describe(
      'The most runs at once: 2 for duckdb, 4 for others. The rest wait. `plan`, `why` and deletions have two places more.',
    );

const snapshots = text.optional().meta({
  description:
    'The engine that has the snapshots of this one, which is only read (docs/databases.md). Not for duckdb. ' +
    'Default of types that are never written to: the database of a Postgres store, else the first duckdb engine, else ./audiences.duckdb.',
  examples: ['home'],
});

const options = (description: string) =>
  z.record(z.string(), z.unknown()).default({}).meta({ title: 'map', description });

/**
 * ClickHouse settings that users can't change: otherwise a run would use another time zone, continue before its writes are
 * visible, or mistake limited results for complete ones.
 */
const OWN_SETTINGS =
  /^(session_timezone|async_insert|mutations_sync|lightweight_deletes_sync|skip_unavailable_shards|limit|offset|\w+_overflow_mode(_leaf)?)$/;

/** Schemas of the databases themselves, of people's tables, and of the event log's views. */
const TAKEN_SCHEMAS = /^(pg_.*|information_schema|main|public|temp|system|memory|rollcall_events)$/;

const schema = z
  .string()
  .regex(/^[a-z_][a-z0-9_]{0,62}$/, 'must be a name of small letters, digits and _')
  .refine(
    (name) => !TAKEN_SCHEMAS.test(name),
    'is the name of a schema for other tables: choose one for Rollcall alone',
  )
  .optional()
  .meta({
    title: 'name',
    description:
      'The schema of the snapshots and plans in duckdb and postgres, `rollcall` unless given. Each store needs its own (docs/engines.md#snapshots-belong-to-a-store).',
    examples: ['rollcall_dev'],
  });

export const engine = z.discriminatedUnion(
  'type',
  [
    section({
      type: z
        .literal('duckdb')
        .describe(
          'The database that computes: DuckDB, Postgres, ClickHouse, MySQL, SQLite, Trino, Snowflake, BigQuery or a module of yours.',
        ),
      path: text.default(DEFAULT_SNAPSHOTS).describe('duckdb: the file of the snapshots.'),
      memoryLimit: z
        .string()
        .regex(/^\d+(\.\d+)? ?[KMGT]i?B$/i, 'must be a size such as 2GB')
        .optional()
        .meta({
          title: 'size',
          description: 'duckdb: the most memory it uses; its own default unless given.',
          examples: ['2GB'],
        }),
      threads: whole(1, 1024)
        .optional()
        .meta({ description: 'duckdb: how many threads it uses; its own default unless given.', examples: [2] }),
      schema,
      ...lakeShape,
      concurrency: concurrency(2),
    }),
    section({
      type: z.literal('postgres'),
      url: postgresUrl.describe('postgres: the database that has the data.'),
      schema,
      snapshots,
      concurrency: concurrency(4),
    }),
    section({
      type: z.literal('mysql'),
      url: mysqlUrl.describe('mysql: likewise.'),
      options: options('mysql: options of the driver mysql2, such as `ssl`.'),
      snapshots,
      concurrency: concurrency(4),
    }),
    section({
      type: z.literal('sqlite'),
      path: text.meta({ description: 'sqlite: the file that has the data.', examples: ['./shop.db'] }),
      snapshots,
      concurrency: concurrency(4),
    }),
    section({
      type: z.literal('trino'),
      url: trinoUrl.describe('trino: its coordinator, with catalog and schema.'),
      snapshots,
      concurrency: concurrency(4),
    }),
    section({
      type: z.literal('snowflake'),
      account: text
        .regex(/^[\w.-]+$/, 'must be the identifier of an account, such as myorg-shop')
        .meta({ description: 'snowflake: the identifier of the account.', examples: ['myorg-shop'] }),
      user: text.meta({ description: 'snowflake: the user, who has the public key.', examples: ['ROLLCALL'] }),
      privateKey: text.meta({
        title: 'secret',
        description: 'snowflake: the private key, as PEM text or the file that has it.',
        examples: [variable('SNOWFLAKE_KEY')],
      }),
      warehouse: text.optional().meta({ description: 'snowflake: what computes.', examples: ['REPORTING'] }),
      role: text.optional().meta({ description: "snowflake: the user's role.", examples: ['ROLLCALL'] }),
      database: text.optional().describe('snowflake: the database that definitions find their tables in.'),
      schema: text.optional().describe('snowflake: the schema of that database.'),
      url: serverUrl.optional().describe('snowflake: another address.'),
      snapshots,
      concurrency: concurrency(4),
    }),
    section({
      type: z.literal('bigquery'),
      project: text
        .regex(/^[\w:.-]+$/, 'must be the id of a project')
        .meta({ description: 'bigquery: the project that pays for the queries.', examples: ['shop-warehouse'] }),
      location: text.optional().meta({ description: 'bigquery: the place of the data.', examples: ['EU'] }),
      credentials: text.meta({
        title: 'secret',
        description: "bigquery: a service account's key, as JSON text or the file that has it.",
        examples: [variable('BIGQUERY_KEY')],
      }),
      url: serverUrl.optional().describe('bigquery: likewise.'),
      snapshots,
      concurrency: concurrency(4),
    }),
    section({
      type: z.literal('clickhouse'),
      url: clickhouseUrl.describe("clickhouse: its HTTP interface, with the tables' database."),
      database: z
        .string()
        .regex(/^[A-Za-z_]\w{0,99}$/, 'must be a name of letters, digits and _')
        .default('rollcall')
        .meta({ title: 'name', description: 'clickhouse: the database of the snapshots and plans.' }),
      settings: z
        .record(
          z.string().regex(/^[a-z]\w*$/, 'must be the name of a setting'),
          z.union([z.string(), z.number(), z.boolean()], 'must be text, a number, true or false'),
        )
        .superRefine((settings, context) => {
          for (const name of Object.keys(settings).filter((name) => OWN_SETTINGS.test(name))) {
            context.addIssue({ code: 'custom', path: [name], message: 'is set by Rollcall itself: remove it' });
          }
        })
        .default({})
        .meta({
          title: 'map',
          description:
            'clickhouse: settings of ClickHouse for all that is asked of it (docs/engines.md#clickhouse-type-clickhouse).',
          examples: [{ join_use_nulls: 1 }],
        }),
      snapshots,
      concurrency: concurrency(4),
    }),
    section({
      type: z.literal('module'),
      module: text.meta({
        description:
          'module: a file that begins with `./` or `/`, or a package (docs/engines.md#writing-another-engine).',
        examples: ['./engine.js'],
      }),
      options: options('module: the options it is opened with.'),
      snapshots,
      concurrency: concurrency(4),
    }),
  ],
  { error: 'needs a type: duckdb, postgres, clickhouse, mysql, sqlite, trino, snowflake, bigquery or module' },
);

/** The settings of one type of engine, without those that all have. */
export type EngineSettings<Type extends z.output<typeof engine>['type']> = Omit<
  Extract<z.output<typeof engine>, { type: Type }>,
  'concurrency' | 'snapshots'
>;
