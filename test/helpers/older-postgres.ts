import { readFileSync } from 'node:fs';
import pg from 'pg';
import type { PostgresServer } from './postgres.ts';

const FOLDER = new URL('../../src/store/postgres/migrations/', import.meta.url);
const MIGRATIONS = ['001_initial.sql', '002_process.sql'];

/** An empty store as an earlier version left it; a client for it, to be ended. */
export async function olderPostgres(
  server: PostgresServer,
  version: number,
): Promise<[url: string, client: pg.Client]> {
  const url = await server.database();
  const client = new pg.Client(url);
  await client.connect();
  await client.query('CREATE SCHEMA rollcall; CREATE TABLE rollcall.migration (version integer PRIMARY KEY)');
  for (const [index, file] of MIGRATIONS.slice(0, version).entries()) {
    await client.query(readFileSync(new URL(file, FOLDER), 'utf8'));
    await client.query('INSERT INTO rollcall.migration VALUES ($1)', [index + 1]);
  }
  await client.query("INSERT INTO rollcall.meta VALUES ('store', 'abc'), ('suppression_key', 'key')");
  return [url, client];
}
