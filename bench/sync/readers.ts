import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { DuckDBInstance } from '@duckdb/node-api';
import mysql from 'mysql2';
import pg from 'pg';
import { openDuckdb } from '../../jobs/engines/duckdb/duckdb.ts';
import { openReader } from '../../jobs/readers/open.ts';
import type { EngineConfig } from '../../src/config/config.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import type { MariadbServer } from '../../test/helpers/mariadb.ts';
import type { PostgresServer } from '../../test/helpers/postgres.ts';
import { type Figures, familyOf, peakMemoryMb } from '../harness.ts';
import { type Data, moveSnapshot, timed } from './contenders.ts';

/** The same ids in each database that is only read: `new_list`, and the snapshot of `old_list` in DuckDB. */
export interface ReadData {
  readonly url: string;
  readonly pid: number | null;
}

export type ReadKind = 'postgres' | 'mysql' | 'sqlite';
const SQL = 'select user_id from new_list';
const MEMORY = '176MB';

const DRIVERS: Readonly<Record<ReadKind, (url: string) => Promise<void>>> = {
  /** `COPY (…) TO STDOUT`, whose rows are not even split. */
  async postgres(url) {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await new Promise<void>((resolve, reject) => {
      const copy = {
        submit: (connection: { query(text: string): void }) => connection.query(`COPY (${SQL}) TO STDOUT`),
        handleReadyForQuery: resolve,
        handleError: reject,
        handleCopyData() {},
        handleCommandComplete() {},
      };
      client.query(copy as never);
    });
    await client.end();
  },
  async mysql(url) {
    const connection = mysql.createConnection({ uri: url, rowsAsArray: true, dateStrings: true });
    for await (const _ of connection.query(SQL).stream({ highWaterMark: 5_000 }));
    connection.end();
  },
  async sqlite(url) {
    const statement = new DatabaseSync(url, { readOnly: true }).prepare(SQL);
    statement.setReturnArrays(true);
    statement.setReadBigInts(true);
    for (const _ of statement.iterate());
  },
};

function readConfig(kind: ReadKind, url: string): EngineConfig {
  const common = { concurrency: 1, snapshots: 'home' };
  if (kind === 'sqlite') return { type: 'sqlite', path: url, ...common };
  return kind === 'mysql' ? { type: 'mysql', url, options: {}, ...common } : { type: 'postgres', url, ...common };
}

const pathsOf = ({ folder }: Pick<Data, 'folder'>) => ({
  snapshot: join(folder, 'read-snapshot.duckdb'),
  list: join(folder, 'read-new.parquet'),
});

/** The driver's rows, which nobody keeps, and then the bare join of the snapshot with the same list in a file. */
export async function readAndJoin(kind: ReadKind, data: Data): Promise<Figures> {
  const { url, pid } = sourceOf(kind, data);
  const { snapshot, list } = pathsOf(data);
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-bench-'));
  const instance = await DuckDBInstance.create(snapshot, {
    access_mode: 'READ_ONLY',
    memory_limit: MEMORY,
    temp_directory: folder,
  });
  const connection = await instance.connect();
  const [[table] = []] = await (
    await connection.run("select table_name from duckdb_tables where table_name like 'members%'")
  ).getRowsJS();
  const reading = await timed(() => DRIVERS[kind](url), pid);
  const joining = await timed(() =>
    connection.run(
      `select count(*) from rollcall."${table}" o full join '${list}' n on o.user_id = n.user_id where o.user_id is distinct from n.user_id`,
    ),
  );
  rmSync(folder, { recursive: true, force: true });
  const sum = (name: string) => (reading[name] ?? 0) + (joining[name] ?? 0);
  return { seconds: sum('seconds'), cpuSeconds: sum('cpuSeconds'), readCpuSeconds: reading['cpuSeconds'] ?? 0 };
}

/** A sync of 1 % churn, whose rows are read there and compared here. */
export async function readSync(kind: ReadKind, data: Data): Promise<Figures> {
  const { url, pid } = sourceOf(kind, data);
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-bench-'));
  const path = join(folder, 'audiences.duckdb');
  copyFileSync(pathsOf(data).snapshot, path);
  const config = readConfig(kind, url);
  const engine = await openDuckdb(
    { type: 'duckdb', path, memoryLimit: MEMORY, threads: null },
    { folder, clock: systemClock, reads: () => openReader(config, { folder: process.cwd() }) },
  );
  const figures = await moveSnapshot(engine, SQL, pid);
  const peaksMb = familyOf([process.pid]).map((each) => peakMemoryMb(each));
  await engine.close();
  rmSync(folder, { recursive: true, force: true });
  return { ...figures, allMemoryMb: peaksMb.reduce((sum, each) => sum + each) };
}

function sourceOf(kind: ReadKind, { reads }: Data): ReadData {
  const source = reads[kind];
  if (!source) throw new Error(`there is no ${kind} here`);
  return source;
}

/** Fills the databases of these kinds. */
export async function prepareReads(
  folder: string,
  members: number,
  wanted: readonly ReadKind[],
  servers: { readonly postgres: PostgresServer | null; readonly mysql: MariadbServer | null },
): Promise<Data['reads']> {
  if (wanted.length === 0) return {};
  const { snapshot, list } = pathsOf({ folder });
  const churn = Math.floor(members / 200);
  const ids = (from: number) =>
    `select 'user_' || md5(i::varchar) as user_id from range(${from}, ${from + members}) as t(i)`;
  const engine = await openDuckdb(
    { type: 'duckdb', path: snapshot, memoryLimit: null, threads: null },
    { folder, clock: systemClock },
  );
  await moveSnapshot(engine, ids(0));
  await engine.close();
  const instance = await DuckDBInstance.create();
  const connection = await instance.connect();
  await connection.run(`copy (${ids(churn)}) to '${list}'`);
  const last = churn + members - 1;
  const reads: Partial<Record<ReadKind, ReadData>> = {};
  if (servers.postgres) {
    const url = await servers.postgres.database();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query(
      `create table new_list as select 'user_' || md5(i::text) as user_id from generate_series(${churn}, ${last}) as t(i)`,
    );
    await client.query('vacuum analyze new_list');
    await client.end();
    reads.postgres = { url, pid: servers.postgres.pid };
  }
  if (servers.mysql) {
    const { admin } = await servers.mysql.database();
    const connection = mysql.createConnection(admin);
    await connection
      .promise()
      .query(`create table new_list as select concat('user_', md5(seq)) as user_id from seq_${churn}_to_${last}`);
    connection.end();
    reads.mysql = { url: admin, pid: servers.mysql.pid };
  }
  if (wanted.includes('sqlite')) {
    const url = join(folder, 'list.db');
    const database = new DatabaseSync(url);
    database.exec('create table new_list (user_id text); begin');
    const insert = database.prepare('insert into new_list values (?)');
    for await (const chunk of await connection.stream(`from '${list}'`))
      for (const id of chunk.getColumnValues(0)) insert.run(id as string);
    database.exec('commit');
    database.close();
    reads.sqlite = { url, pid: null };
  }
  instance.closeSync();
  return reads;
}
