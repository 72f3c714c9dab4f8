import { createWriteStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { constants, createGzip } from 'node:zlib';
import type { Client } from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import type { Clock } from '../../kernel/clock.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { VERSION } from '../../kernel/version.ts';
import { onOwnConnection } from '../postgres/own-connection.ts';
import {
  type CopiedTable,
  type CopyProgress,
  columnNames,
  fileOf,
  migrationOf,
  PRIVATE,
  Tally,
  tableName,
  tablesOf,
  writeManifest,
} from './postgres-copy.ts';

interface PostgresBackupOptions {
  readonly url: string;
  /** Must not be there yet. */
  readonly folder: string;
  /** How far the copy's sequences are put ahead of the database's. */
  readonly idsAhead: number;
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress: CopyProgress;
}

/**
 * Copies all tables of a database as they are at one moment, while others go on to write; `restorePostgres` reads them.
 * Cut off, it leaves a folder without a manifest, which is no copy.
 *
 * @throws RollcallError `store_failed`, `store_busy`; `stopping` when the signal aborts
 */
export function backupPostgres(options: PostgresBackupOptions): Promise<void> {
  const { url, folder, idsAhead, clock, signal } = options;
  return onOwnConnection(url, signal, async (client, begin) => {
    await mkdir(folder, { recursive: true });
    const names = await tablesOf(client);
    await begin('ISOLATION LEVEL REPEATABLE READ READ ONLY');
    // Before the first query, which takes the snapshot: a table that a migration rewrites afterwards would look empty.
    await client.query(`LOCK TABLE ${names.map(tableName).join(', ')} IN ACCESS SHARE MODE`);
    const migration = await migrationOf(client);
    const store = await client.query<{ value: string }>("SELECT value FROM rollcall.meta WHERE key = 'store'");
    const tables: CopiedTable[] = [];
    for (const name of names) tables.push(await copyTable(client, name, options));
    await writeManifest(folder, {
      rollcall: VERSION,
      migration,
      store: store.rows[0]?.value ?? '',
      madeAt: new Date(clock.now()).toISOString(),
      tables,
      sequences: await sequencesOf(client, idsAhead),
    });
  });
}

async function copyTable(
  client: Client,
  name: string,
  { folder, onProgress }: PostgresBackupOptions,
): Promise<CopiedTable> {
  const columns = await columnsOf(client, name);
  const counted = await client.query<{ n: string }>(`SELECT count(*) AS n FROM ${tableName(name)}`);
  const total = Number(counted.rows[0]?.n);
  const tally = new Tally((rows) => onProgress(name, rows, total));
  await pipeline(
    client.query(copyTo(`COPY (SELECT ${columnNames(columns)} FROM ${tableName(name)}) TO STDOUT`)),
    (chunks: AsyncIterable<Buffer>) => tally.through(chunks),
    createGzip({ level: constants.Z_BEST_SPEED }),
    createWriteStream(join(folder, fileOf(name)), { flags: 'wx', mode: PRIVATE, flush: true }),
  ).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOSPC') throw error;
    throw new RollcallError('store_failed', 'There is no room for the copy.', { cause: error });
  });
  return { name, columns, rows: tally.rows, crc32: tally.crc32 };
}

async function columnsOf(client: Client, table: string): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `SELECT attname AS name FROM pg_attribute
     WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum`,
    [tableName(table)],
  );
  return rows.map(({ name }) => name);
}

/** No snapshot holds sequences: these are at least as far as any row of it. */
async function sequencesOf(client: Client, ahead: number): Promise<Record<string, number>> {
  const { rows } = await client.query<{ name: string; last: string | null }>(
    "SELECT sequencename AS name, last_value AS last FROM pg_sequences WHERE schemaname = 'rollcall'",
  );
  return Object.fromEntries(rows.map(({ name, last }) => [name, Number(last ?? 0) + ahead]));
}
