import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';

const run = promisify(execFile);

/** Restores a dump to a database with an empty store. */
type Restore = (to: string) => Promise<void>;

/**
 * Dumps a store on Postgres as it is at one moment, while others go on to write. Where pg_dump is missing or older than the
 * server, rows are read and written by SQL in its place.
 */
export async function dumped(url: string): Promise<Restore> {
  if (!(await canDump(url))) return rowsOf(url);
  const folder = await mkdtemp(join(tmpdir(), 'rollcall-dump-'));
  const file = join(folder, 'store.dump');
  await run('pg_dump', ['-Fc', '-f', file, url]);
  return async (to) => {
    await run('pg_restore', ['--clean', '--if-exists', '--no-owner', '-d', to, file]);
    await rm(folder, { recursive: true });
  };
}

async function canDump(url: string): Promise<boolean> {
  const majorOf = (text: string) => Number(/\d+/.exec(text)?.[0] ?? 0);
  const { stdout } = await run('pg_dump', ['--version']).catch(() => ({ stdout: '' }));
  const [server] = await query<{ v: string }>(url, "SELECT current_setting('server_version') AS v");
  return majorOf(stdout) >= majorOf(server?.v ?? '');
}

const TABLES = `
  SELECT format('rollcall.%I', relname) AS name,
    (SELECT string_agg(format('%I', attname), ', ') FROM pg_attribute
     WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = '') AS columns
  FROM pg_class c WHERE relnamespace = 'rollcall'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition`;
const SEQUENCES = `
  SELECT format('rollcall.%I', sequencename) AS name, last_value AS last FROM pg_sequences
  WHERE schemaname = 'rollcall' AND last_value IS NOT NULL`;

async function rowsOf(url: string): Promise<Restore> {
  const copies: { name: string; columns: string; rows: string }[] = [];
  const sequences = await connected(url, async (client) => {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
    for (const { name, columns } of (await client.query<{ name: string; columns: string }>(TABLES)).rows) {
      const all = `SELECT coalesce(json_agg(t), '[]')::text AS rows FROM (SELECT ${columns} FROM ${name}) t`;
      copies.push({ name, columns, rows: (await client.query<{ rows: string }>(all)).rows[0]?.rows ?? '[]' });
    }
    return (await client.query<{ name: string; last: string }>(SEQUENCES)).rows;
  });
  return (to) =>
    connected(to, async (client) => {
      await client.query('BEGIN');
      await client.query('DELETE FROM rollcall.meta; DELETE FROM rollcall.migration');
      for (const { name, columns, rows } of copies)
        await client.query(
          `INSERT INTO ${name} (${columns}) OVERRIDING SYSTEM VALUE
           SELECT ${columns} FROM json_populate_recordset(NULL::${name}, $1::json)`,
          [rows],
        );
      for (const { name, last } of sequences) await client.query('SELECT setval($1, $2)', [name, last]);
      await client.query('COMMIT');
    });
}

export function query<T extends pg.QueryResultRow>(url: string, sql: string): Promise<T[]> {
  return connected(url, async (client) => (await client.query<T>(sql)).rows);
}

async function connected<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return work(client).finally(() => client.end());
}
