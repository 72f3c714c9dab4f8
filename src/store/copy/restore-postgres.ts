import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import type { Client } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { RollcallError } from '../../kernel/errors.ts';
import { migratePostgres } from '../postgres/migrate.ts';
import { onOwnConnection } from '../postgres/own-connection.ts';
import {
  type CopiedTable,
  type CopyProgress,
  columnNames,
  damaged,
  fileOf,
  type Manifest,
  migrationOf,
  newerCopy,
  readManifest,
  Tally,
  tableName,
  tablesOf,
} from './postgres-copy.ts';

interface RestoreOptions {
  /** A folder that `backupPostgres` has written. */
  readonly folder: string;
  /** `postgres://…`; its tables are made if need be. */
  readonly to: string;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: CopyProgress;
}

interface Restored {
  /** When the copy was made, in ISO 8601. */
  readonly madeAt: string;
  /** Rows that were restored, by table. */
  readonly rows: Readonly<Record<string, number>>;
}

/**
 * Brings a copy back into an empty database, all of it or nothing. The store goes on as it was, with the same ids. Only
 * leases of processes that are gone have ended, so that their claims are free at the next start.
 *
 * @throws RollcallError `bad_usage` without a copy or into a database that is not empty, `store_outdated` for a copy of
 * another version, `store_failed` for a damaged one, `stopping` when the signal aborts
 */
export async function restorePostgres(options: RestoreOptions): Promise<Restored> {
  const { folder, to, signal } = options;
  const manifest = await readManifest(folder);
  await migratePostgres(to);
  return onOwnConnection(to, signal, async (client, begin) => {
    await begin();
    await client.query('SET LOCAL synchronous_commit = on');
    // A service that is started now waits, or gives up: it must not find half of it.
    const names = await tablesOf(client);
    await client.query(`LOCK TABLE ${names.map(tableName).join(', ')} IN ACCESS EXCLUSIVE MODE`);
    refuseUnlessOfVersion(await migrationOf(client), manifest);
    await refuseUnlessEmpty(client, names);
    for (const name of WRITTEN_BY_MIGRATIONS) await client.query(`DELETE FROM ${tableName(name)}`);
    for (const table of manifest.tables) await restoreTable(client, table, options);
    for (const [name, last] of Object.entries(manifest.sequences)) {
      await client.query('SELECT setval($1, $2)', [tableName(name), last]);
    }
    // Rows of owners stay, so that the next start frees what they had claimed; tokens of fences must not go back.
    await client.query('UPDATE rollcall.owner SET lease_until = 0');
    await client.query('UPDATE rollcall.lease SET lease_until = 0');
    // This has deletions since the copy carried out again.
    await client.query(
      `INSERT INTO rollcall.meta VALUES ('restored', gen_random_uuid())
       ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
    );
    await client.query('COMMIT');
    return { madeAt: manifest.madeAt, rows: Object.fromEntries(manifest.tables.map(({ name, rows }) => [name, rows])) };
  });
}

/** They have rows in an empty database, which the copy's take the place of. */
const WRITTEN_BY_MIGRATIONS = ['meta', 'migration'];

function refuseUnlessOfVersion(present: number, { migration }: Manifest): void {
  if (migration > present) throw newerCopy();
  if (migration === present) return;
  throw new RollcallError(
    'store_outdated',
    'The copy was made by an older Rollcall. Restore it with that version, then run: rollcall migrate -c FILE',
  );
}

async function refuseUnlessEmpty(client: Client, names: readonly string[]): Promise<void> {
  const used = names
    .filter((name) => !WRITTEN_BY_MIGRATIONS.includes(name))
    .map((name) => `EXISTS (SELECT 1 FROM ${tableName(name)})`)
    .join(' OR ');
  const { rows } = await client.query<{ used: boolean }>(`SELECT ${used} AS used`);
  if (rows[0]?.used) throw new RollcallError('bad_usage', 'The database is not empty; it has been in use already.');
}

/** Larger than the usual 16 KB, since each is a message to the server. */
const CHUNK = 128 * 1024;

async function restoreTable(client: Client, table: CopiedTable, options: RestoreOptions): Promise<void> {
  const { folder, onProgress = () => {} } = options;
  const { name, columns, rows, crc32 } = table;
  const file = fileOf(name);
  const tally = new Tally((done) => onProgress(name, done, rows));
  await pipeline(
    createReadStream(join(folder, file)),
    createGunzip({ chunkSize: CHUNK }),
    (chunks: AsyncIterable<Buffer>) => tally.through(chunks),
    client.query(copyFrom(`COPY ${tableName(name)} (${columnNames(columns)}) FROM STDIN`)),
  ).catch((error: NodeJS.ErrnoException) => {
    throw isOfFile(error) ? damaged(file, error) : error;
  });
  if (tally.rows !== rows || tally.crc32 !== crc32) throw damaged(file);
}

/** Whether a file can't be read or decompressed. */
const isOfFile = ({ code = '', path }: NodeJS.ErrnoException) => path !== undefined || code.startsWith('Z_');
