import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import pg from 'pg';

/** Keeps Postgres from taking back dead rows until it is undone. */
export type Pin = (url: string) => Promise<() => Promise<void>>;

/** A session that somebody forgot: it read something, and holds no lock. */
export const idle: Pin = async (url) => {
  const client = await connected(url);
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
  await client.query('SELECT count(*) FROM pg_class');
  return () => client.end();
};

/** A dump that is slow, since nobody reads what it writes. It holds ACCESS SHARE on every table. */
const realDump: Pin = async (url) => {
  const client = await connected(url);
  await client.query(
    'CREATE TABLE archive AS SELECT n, repeat(md5(n::text), 32) AS text FROM generate_series(1, 50000) AS n',
  );
  const dump = spawn('pg_dump', ['--dbname', url], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(dump, 'exit');
  for (;;) {
    const { rows } = await client.query(
      "SELECT 1 FROM pg_stat_activity WHERE application_name = 'pg_dump' AND query ~ '^COPY'",
    );
    if (rows.length > 0) break;
    if (dump.exitCode !== null) throw new Error('pg_dump failed');
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await client.end();
  return async () => {
    if (dump.exitCode !== null) throw new Error('pg_dump ended before the load did');
    dump.kill();
    await ended;
  };
};

/** As pg_dump does it: locks on all tables, then a COPY that nobody reads, in one transaction. */
const likeDump: Pin = async (url) => {
  const client = await connected(url);
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
  const { rows } = await client.query<{ name: string }>(
    "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname IN ('rollcall', 'graphile_worker')",
  );
  await client.query(`LOCK TABLE ${rows.map(({ name }) => name).join(', ')} IN ACCESS SHARE MODE`);
  for (const { name } of rows) await client.query(`SELECT count(*) FROM ${name}`);
  return () => client.end();
};

async function connected(url: string): Promise<pg.Client> {
  const client = new pg.Client(url);
  await client.connect();
  return client;
}

/** The real pg_dump, if there is one that is not older than the server; else what it does, by hand. */
export async function dump(url: string): Promise<{ readonly name: string; readonly pin: Pin }> {
  const client = await connected(url);
  const { rows } = await client.query<{ version: number }>(
    "SELECT current_setting('server_version_num')::int / 10000 AS version",
  );
  await client.end();
  const server = rows[0]?.version ?? 0;
  try {
    const version = Number(/\d+/.exec(execFileSync('pg_dump', ['--version'], { encoding: 'utf8' }))?.[0]);
    if (version >= server) return { name: `pg_dump ${version}`, pin: realDump };
  } catch {}
  return { name: 'what pg_dump does', pin: likeDump };
}
