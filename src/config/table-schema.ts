import * as z from 'zod';
import { LOG_VIEWS } from '../definition/log-views.ts';
import { postgresUrl, text } from './formats.ts';
import { section } from './section.ts';

const FORMATS = { csv: /\.(csv|tsv)$/i, json: /\.(json|jsonl|ndjson)$/i, parquet: /\.(parquet|pq)$/i } as const;

/** The format that a file's name says, compressed or not. */
export function formatOf(pattern = ''): keyof typeof FORMATS | null {
  const name = pattern.replace(/\.(gz|zst)$/i, '');
  const found = (['csv', 'json', 'parquet'] as const).find((format) => FORMATS[format].test(name));
  return found ?? null;
}

const TYPE =
  /^(text|varchar|tinyint|smallint|integer|int|bigint|hugeint|double|boolean|date|time|timestamp|timestamptz|uuid|json|decimal\(\d{1,2}, ?\d{1,2}\))$/i;

const type = z
  .string()
  .regex(
    TYPE,
    'must be text, integer, bigint, decimal(18,2), double, boolean, date, time, timestamp, timestamptz, uuid or json',
  )
  .meta({ title: 'type', examples: ['text'] });

const name = z.string().regex(/^[A-Za-z_]\w{0,62}$/, 'must be a name of letters, digits and _');
const VIEWS: ReadonlySet<string> = new Set(LOG_VIEWS);
const tableName = name.refine(
  (value) => !VIEWS.has(value.toLowerCase().replace('rollcall_', '')),
  'is the name of a view of the event log',
);
const strictness = z.enum(['fail', 'allow'], 'must be fail or allow').default('fail');
const character = z.string().regex(/^[^\r\n]$/u, 'must be one character');

const columns = z.record(z.string().min(1, 'must not be empty'), type).superRefine((given, context) => {
  const names = Object.keys(given).map((each) => each.toLowerCase());
  const repeated = names.find((each, index) => names.indexOf(each) !== index);
  if (repeated !== undefined) context.addIssue(`names ${repeated} twice: upper and lower case make no difference`);
});

const table = section({
  files: z
    .union([text, z.array(text).min(1, 'needs at least one file')])
    .transform((files) => [files].flat())
    .meta({
      title: 'files',
      description: 'Paths or URLs, with `*` and `**`: one, or a list.',
      examples: ['orders/*.csv'],
    }),
  format: z
    .enum(['csv', 'json', 'parquet'], 'must be csv, json or parquet')
    .optional()
    .meta({ title: 'format', description: 'csv, json or parquet. By default the name says it: `.csv`, `.jsonl.gz`.' }),
  columns: columns
    .refine((given) => Object.keys(given).length > 0, 'needs at least one column')
    .meta({
      title: 'map',
      description: 'The type of each column.',
      examples: [{ customer_id: 'text', amount: 'double' }],
    }),
  partitions: columns.default({}).meta({
    title: 'map',
    description: 'Columns that are folders, as in `day=2026-03-01/`.',
    examples: [{ day: 'date' }],
  }),
  header: z.boolean().default(true).describe('csv: the first line has names. Without, columns are in the order above.'),
  delimiter: character.default(',').describe('csv: the character between values.'),
  quote: z
    .union([character, z.literal('')])
    .default('"')
    .describe('csv: the character around values; `""` for none.'),
  encoding: z
    .enum(['utf-8', 'utf-16', 'latin-1'], 'must be utf-8, utf-16 or latin-1')
    .default('utf-8')
    .describe('csv: the encoding of its text.'),
  decimal: z.enum(['.', ','], 'must be . or ,').default('.').describe('csv: the decimal sign of numbers.'),
  dateFormat: text.optional().meta({
    title: 'format',
    description: 'csv, json: the form of dates, in the letters of `strftime`. ISO (2026-03-31) unless given.',
    examples: ['%d.%m.%Y'],
  }),
  timestampFormat: text.optional().meta({
    title: 'format',
    description: 'csv, json: the same for times. Times without an offset are UTC.',
    examples: ['%d.%m.%Y %H:%M'],
  }),
  missingColumns: strictness.describe('`allow`: a column that a file lacks is null there.'),
  newColumns: strictness.describe('`allow`: a file may have more columns, which are not read.'),
});

export type TableSettings = z.output<typeof table>;

const secretText = z.union([z.string().min(1, 'must not be empty'), z.number(), z.boolean()]);

const serverUrl = z
  .string()
  .refine(
    (value) => ['mysql:', 'mariadb:'].includes(URL.parse(value)?.protocol ?? ''),
    'must be mysql://USER:PASSWORD@HOST/DATABASE',
  )
  .meta({ title: 'URL', examples: [`\${ERP_URL}`] });

const attached = z.discriminatedUnion(
  'type',
  [
    section({ type: z.literal('postgres'), url: postgresUrl }),
    section({ type: z.literal('mysql'), url: serverUrl }),
    section({ type: z.literal('sqlite'), path: text }),
    section({ type: z.literal('duckdb'), path: text }),
  ],
  { error: 'needs a type: postgres, mysql, sqlite or duckdb' },
);

/** Settings of a duckdb engine for data outside its file. */
export const lakeShape = {
  tables: z
    .record(tableName, table)
    .default({})
    .meta({
      title: 'map',
      description: 'duckdb: files by name, with the types of their columns (docs/engines.md#files).',
      examples: [{ orders: { files: 'orders/*.csv', columns: { customer_id: 'text', amount: 'decimal(18,2)' } } }],
    }),
  extensions: z
    .array(name)
    .default([])
    .meta({
      title: 'list',
      description: 'duckdb: extensions to load. `rollcall doctor --install` installs those that are missing.',
      examples: [['httpfs', 'postgres']],
    }),
  secrets: z
    .record(name, z.record(name, secretText).and(z.looseObject({ type: name })))
    .default({})
    .meta({
      title: 'map',
      description: 'duckdb: secrets by name, each with its `type` and the settings that DuckDB has for it.',
      examples: [{ r2: { type: 's3', key_id: `\${KEY}`, secret: `\${SECRET}` } }],
    }),
  attach: z
    .record(name, attached)
    .default({})
    .meta({
      title: 'map',
      description: 'duckdb: other databases by name, which are only read.',
      examples: [{ erp: { type: 'postgres', url: `\${ERP_URL}` } }],
    }),
};
