import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import pg from 'pg';
import { conflictKey } from '../../jobs/audience-or-trait.ts';
import { bodyBuilder } from '../../jobs/run/identify-body.ts';
import { countCpu, type Figures } from '../harness.ts';
import type { Data } from './contenders.ts';

const SCHEMA = new URL('../../src/store/sqlite/migrations/001_initial.sql', import.meta.url);
/** As the store sets its own (src/store/sqlite/connection.ts). */
const SETTINGS = [
  'page_size = 8192',
  'journal_mode = WAL',
  'synchronous = FULL',
  'cache_size = -32768',
  'wal_autocheckpoint = 2000',
  'secure_delete = ON',
  'temp_store = MEMORY',
];
const INSERT = `INSERT INTO delivery (destination, lane, state, owner, due_at, tries, source, type, message_id, user_id, accepted_at, run, conflict, body)
  VALUES (1, 2, 0, NULL, ?1, 0, 2, 0, ?2, ?3, ?1, 3, ?4, ?5)`;
const BATCH = 5_000;
/** As the engine's own (jobs/engines/postgres/postgres.ts), which it makes once the rows are there. */
const POSTGRES_INDEXES = ['USING hash (user_id)', '(left(user_id, 64))', '(since)'];

/** The rows of a first sync, into a snapshot and a store, by nothing but inserts; only these are counted. */
export async function bareInsert({ folder }: { readonly folder: string }, order: string): Promise<Figures> {
  const own = mkdtempSync(join(tmpdir(), 'rollcall-bench-'));
  const instance = await DuckDBInstance.create(join(own, 'snapshot.duckdb'));
  const connection = await instance.connect();
  await connection.run('create table members (user_id varchar not null, value varchar, since bigint not null)');
  const spent = new Spent();
  const ids = `select user_id from '${folder}/old.parquet' ${order}`;
  await spent.on(() => connection.run(`insert into members select user_id, null, 1 from '${folder}/old.parquet'`));
  await insertMessages(connection, ids, join(own, 'store.db'), spent);
  instance.closeSync();
  rmSync(own, { recursive: true, force: true });
  return { seconds: spent.seconds, cpuSeconds: spent.cpuSeconds };
}

/** The same into a snapshot in Postgres, by user id. */
export async function postgresBareInsert({ folder, postgres }: Pick<Data, 'folder' | 'postgres'>): Promise<Figures> {
  const own = mkdtempSync(join(tmpdir(), 'rollcall-bench-'));
  const client = new pg.Client({ connectionString: postgres?.url ?? '' });
  await client.connect();
  await client.query('create table bare (user_id varchar collate "C" not null, value varchar, since bigint not null)');
  const spent = new Spent(postgres?.pid ?? null);
  await spent.on(async () => {
    await client.query('insert into bare select user_id, null, 1 from old_list order by user_id collate "C"');
    for (const index of POSTGRES_INDEXES) await client.query(`create index on bare ${index}`);
  });
  await client.query('drop table bare');
  await client.end();
  const instance = await DuckDBInstance.create();
  const ids = `select user_id from '${folder}/old.parquet' order by user_id`;
  await insertMessages(await instance.connect(), ids, join(own, 'store.db'), spent);
  instance.closeSync();
  rmSync(own, { recursive: true, force: true });
  return { seconds: spent.seconds, cpuSeconds: spent.cpuSeconds };
}

async function insertMessages(connection: DuckDBConnection, ids: string, path: string, spent: Spent): Promise<void> {
  const insert = openStore(path);
  for await (const chunk of await connection.stream(ids)) {
    for (const id of chunk.getColumnValues(0) as string[]) {
      if (insert.add(id) === BATCH) await spent.on(() => insert.write());
    }
  }
  await spent.on(() => insert.write());
}

class Spent {
  seconds = 0;
  cpuSeconds = 0;
  private readonly pids: readonly number[];

  /** @param server - the database that works too */
  constructor(server: number | null = null) {
    this.pids = server === null ? [process.pid] : [process.pid, server];
  }

  async on(work: () => unknown): Promise<void> {
    const cpu = countCpu(this.pids);
    const start = performance.now();
    await work();
    this.seconds += (performance.now() - start) / 1000;
    this.cpuSeconds += cpu() / 1_000_000;
  }
}

function openStore(path: string) {
  const database = new DatabaseSync(path);
  for (const setting of SETTINGS) database.exec(`PRAGMA ${setting}`);
  database.exec(readFileSync(SCHEMA, 'utf8'));
  const statement = database.prepare(INSERT);
  const at = Date.now();
  const body = bodyBuilder({
    key: 'list',
    name: 'List',
    kind: 'audience',
    columns: [],
    removed: [],
    at,
    now: () => at,
  });
  const change = { present: true, value: null, reason: 'first_sync', changedAt: at, cause: null } as const;
  let rows: string[][] = [];
  let made = 0;
  return {
    /** Makes a row; resolves to how many wait. */
    add(user: string): number {
      made += 1;
      const message = `mwr82623-217fad73:${String(made).padStart(22, '0')}`;
      rows.push([
        message,
        user,
        conflictKey('list', user),
        body(message, { userId: user, sequence: at * 1000 + made, ...change }),
      ]);
      return rows.length;
    },
    write(): void {
      database.exec('BEGIN IMMEDIATE');
      for (const row of rows) statement.run(at, ...row);
      database.exec('COMMIT');
      rows = [];
    },
  };
}
