import * as z from 'zod';
import { postgresUrl, text, whole } from './formats.ts';
import { section } from './section.ts';

const concurrency = (runs: number) =>
  whole(1, 100)
    .prefault(runs)
    .describe(
      'The most runs at once: 2 for duckdb, 4 for others. The rest wait. `plan`, `why` and deletions have two places more.',
    );

export const engine = z.discriminatedUnion(
  'type',
  [
    section({
      type: z.literal('duckdb').describe('What computes: DuckDB, Postgres or a module of yours.'),
      path: text.default('./audiences.duckdb').describe('duckdb: the file of the snapshots.'),
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
      concurrency: concurrency(2),
    }),
    section({
      type: z.literal('postgres'),
      url: postgresUrl.describe('postgres: the database that has the data.'),
      concurrency: concurrency(4),
    }),
    section({
      type: z.literal('module'),
      module: text.meta({
        description:
          'module: a file that begins with `./` or `/`, or a package (docs/engines.md#writing-another-engine).',
        examples: ['./engine.js'],
      }),
      options: z
        .record(z.string(), z.unknown())
        .default({})
        .meta({ title: 'map', description: 'module: the options it is opened with.' }),
      concurrency: concurrency(4),
    }),
  ],
  { error: 'needs a type: duckdb, postgres or module' },
);
