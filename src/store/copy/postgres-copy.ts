import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32, gunzipSync, gzipSync } from 'node:zlib';
import pg from 'pg';
import * as z from 'zod';
import { RollcallError } from '../../kernel/errors.ts';

/** Called with the rows of a table that are done, of how many. */
export type CopyProgress = (table: string, done: number, total: number) => void;

/** The copy of a database is a folder with a file for each table, as `COPY` writes them, and this one, written last. */
const MANIFEST = 'manifest.json.gz';
const FORMAT = 1;
export const fileOf = (table: string) => `${table}.copy.gz`;

const manifestSchema = z.object({
  format: z.literal(FORMAT),
  /** The version of Rollcall that made the copy. */
  rollcall: z.string(),
  /** The newest migration of the tables. */
  migration: z.int(),
  /** The store's own id. */
  store: z.string(),
  madeAt: z.iso.datetime(),
  tables: z.array(
    z.object({
      name: z.string().regex(/^\w+$/),
      columns: z.array(z.string()),
      rows: z.int(),
      /** Of the file's text before it was compressed. */
      crc32: z.int(),
    }),
  ),
  /** The last value of each. */
  sequences: z.record(z.string(), z.int()),
});

export type Manifest = z.infer<typeof manifestSchema>;
export type CopiedTable = Manifest['tables'][number];

export async function writeManifest(folder: string, manifest: Omit<Manifest, 'format'>): Promise<void> {
  const text = JSON.stringify({ format: FORMAT, ...manifest } satisfies Manifest, null, 2);
  await writeFile(join(folder, MANIFEST), gzipSync(text), { flag: 'wx', mode: PRIVATE, flush: true });
}

/** Copies hold what a password kept others from. */
export const PRIVATE = 0o600;

/** @throws RollcallError `bad_usage` when there is none, `store_outdated` for one of another format, `store_failed` */
export async function readManifest(folder: string): Promise<Manifest> {
  const file = await readFile(join(folder, MANIFEST)).catch((error: Error) => {
    const message = `${folder} is not a complete copy of a Postgres store: ${MANIFEST} can't be read.`;
    throw new RollcallError('bad_usage', message, { cause: error });
  });
  try {
    const given: unknown = JSON.parse(gunzipSync(file).toString());
    if (z.object({ format: z.int().gt(FORMAT) }).safeParse(given).success) throw newerCopy();
    return manifestSchema.parse(given);
  } catch (error) {
    throw error instanceof RollcallError ? error : damaged(MANIFEST, error);
  }
}

export const newerCopy = () =>
  new RollcallError('store_outdated', 'The copy was made by a newer Rollcall. Restore it with that version.');

export const damaged = (file: string, cause?: unknown) =>
  new RollcallError('store_failed', `The copy is damaged: ${file} is not as it was written. Nothing was restored.`, {
    cause,
  });

/** Counts the rows of what `COPY` writes and reads, and sums it up, as it passes through. */
export class Tally {
  rows = 0;
  crc32 = 0;
  private readonly onRows: (rows: number) => void;

  constructor(onRows: (rows: number) => void) {
    this.onRows = onRows;
  }

  async *through(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of chunks) {
      // A line feed within a value is written as \n.
      for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) this.rows += 1;
      this.crc32 = crc32(chunk, this.crc32);
      this.onRows(this.rows);
      yield chunk;
    }
  }
}

/** A table as SQL. */
export const tableName = (table: string) => `rollcall.${pg.escapeIdentifier(table)}`;
export const columnNames = (columns: readonly string[]) => columns.map(pg.escapeIdentifier).join(', ');

/** The names of all tables; their columns are to be asked for once the tables are locked. */
export async function tablesOf(client: pg.Client): Promise<readonly string[]> {
  const { rows } = await client.query<{ name: string }>(
    `SELECT c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = 'rollcall' AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1`,
  );
  return rows.map(({ name }) => name);
}

export async function migrationOf(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ version: number }>('SELECT max(version) AS version FROM rollcall.migration');
  return rows[0]?.version ?? 0;
}
