/**
 * Audience sync side by side: stage, diff and commit with 1 % churn (half in, half out) against the bare full outer
 * join of the same files, a Set in JavaScript and EXCEPT in Postgres; and a first sync into the durable store against
 * the bare insert of its rows.
 *
 * The bare join reads two Parquet files of one column of text, and counts what differs: it cleans no ids, folds no duplicates,
 * and writes nothing. `bare` has both files in one order, so that what is looked up lies side by side in memory. No
 * definition promises that: `bareOtherOrder` has the older file in another order.
 * The bare insert is that of the ids into a DuckDB table, and of the finished rows into the tables and indexes of the store, 5,000 in
 * a transaction that is synced to disk: in the order of the file, and (`bareInsertSorted`) by user id. Making the rows,
 * and sorting them, is not counted. `postgresBareInsert` has the ids in a table of Postgres, with its indexes; its sort is counted.
 *
 * `rollcallColumns` has two columns that go with each change (`with`).
 *
 * `csvTables` syncs from a CSV file with types under `tables`, `csvReader` from the same by read_csv with types.
 *
 * `--members 1000000,10000000` says how many. `--only` takes names such as `rollcall 1M`.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { DuckDBInstance } from '@duckdb/node-api';
import pg from 'pg';
import { openDuckdb } from '../jobs/engines/duckdb/duckdb.ts';
import { openPostgres } from '../jobs/engines/postgres/postgres.ts';
import { systemClock } from '../src/kernel/clock.ts';
import { startMariadb } from '../test/helpers/mariadb.ts';
import { type PostgresServer, startPostgres } from '../test/helpers/postgres.ts';
import { type Contender, compare, DEPLOYED, type Figures, only, startPart } from './harness.ts';
import { contenders as all, COLUMNS, columnsOf, type Data, moveSnapshot } from './sync/contenders.ts';
import { prepareReads, type ReadKind } from './sync/readers.ts';

const { values } = parseArgs({ strict: false, options: { members: { type: 'string' } } });
const sizes = String(values['members'] ?? '1000000,10000000')
  .split(',')
  .map(Number);
/** Readers, each with its contender and what that is compared with. */
const READS: readonly (readonly [ReadKind, string, string])[] = [
  ['postgres', 'readPostgres', 'copyAndJoin'],
  ['mysql', 'readMysql', 'mysqlAndJoin'],
  ['sqlite', 'readSqlite', 'sqliteAndJoin'],
];
const isWanted = (name: string) => only === null || only.some((wanted) => wanted.startsWith(name));

async function prepare(members: number, server: PostgresServer | null): Promise<Data> {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-bench-'));
  const churn = Math.floor(members / 200);
  if (needsFiles) await prepareFiles(folder, members, churn);
  const postgres = server && { url: await preparePostgres(server, members, churn), pid: server.pid };
  const reads = await prepareReads(folder, members, wantedReads, readServers);
  return { folder, members, postgres, reads };
}

async function prepareFiles(folder: string, members: number, churn: number): Promise<void> {
  const instance = await DuckDBInstance.create();
  const connection = await instance.connect();
  const list = (from: number) => `select 'user_' || hash(i) as user_id from range(${from}, ${from + members}) as t(i)`;
  await connection.run(`copy (${list(0)}) to '${folder}/old.parquet'`);
  await connection.run(`copy (${list(churn)}) to '${folder}/new.parquet'`);
  await connection.run(
    `copy (from '${folder}/old.parquet' order by hash(user_id || '.')) to '${folder}/other.parquet'`,
  );
  await connection.run(
    `copy (select user_id, ((hash(user_id) % 100000) / 100)::decimal(18,2) as amount, timestamp '2026-01-01' as ordered_at
       from '${folder}/new.parquet') to '${folder}/new.csv'`,
  );
  for (const name of ['old', 'new']) {
    await connection.run(
      `copy (select user_id, user_id || '@example.com' as email, ['free', 'pro', 'team'][1 + (hash(user_id) % 3)::int] as plan
         from '${folder}/${name}.parquet') to '${folder}/${name}-columns.parquet'`,
    );
  }
  connection.closeSync();
  instance.closeSync();
  await firstSync(folder, 'snapshot', `select user_id from '${folder}/old.parquet'`);
  await firstSync(folder, 'columns', columnsOf({ folder }, 'old'), COLUMNS);
}

async function firstSync(folder: string, name: string, sql: string, columns?: typeof COLUMNS): Promise<void> {
  const engine = await openDuckdb(
    { type: 'duckdb', path: join(folder, `${name}.duckdb`), memoryLimit: null, threads: null },
    { folder, clock: systemClock },
  );
  await moveSnapshot(engine, sql, null, columns);
  await engine.close();
}

async function preparePostgres(server: PostgresServer, members: number, churn: number): Promise<string> {
  const url = await server.database();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  for (const [name, from] of [
    ['old_list', 0],
    ['new_list', churn],
  ] as const) {
    const rows = `select 'user_' || md5(i::text) as user_id from generate_series(${from}, ${from + members - 1}) as t(i)`;
    await client.query(`create table ${name} as ${rows}`);
    await client.query(`vacuum analyze ${name}`);
  }
  await client.end();
  const engine = await openPostgres({ type: 'postgres', url });
  await moveSnapshot(engine, 'select user_id from old_list');
  await engine.close();
  return url;
}

async function measure(name: string, data: Data): Promise<Figures> {
  const part = await startPart(new URL('sync/part.ts', import.meta.url), [name, JSON.stringify(data)], DEPLOYED);
  await part.stop();
  return part.ready as Figures;
}

const needsPostgres = Object.keys(all).some((name) => name.startsWith('postgres') && isWanted(name));
const server = needsPostgres ? await startPostgres(['work_mem = 256MB', 'max_wal_size = 8GB']) : null;
const needsFiles = Object.keys(all).some(
  (name) => !name.startsWith('postgres') && !READS.some((read) => read.includes(name)) && isWanted(name),
);
const wantedReads = READS.filter(([, ...names]) => names.some(isWanted)).map(([kind]) => kind);
const readServers = {
  postgres: wantedReads.includes('postgres') ? await startPostgres() : null,
  mysql: wantedReads.includes('mysql')
    ? await startMariadb(['--innodb-buffer-pool-size=1G', '--innodb-log-file-size=512M'])
    : null,
};
const folders: string[] = [];
try {
  const contenders: Record<string, Contender> = {};
  const ratios: Record<string, [string, string, string]> = {};
  for (const members of sizes) {
    const data = await prepare(members, server);
    folders.push(data.folder);
    const label = `${members / 1_000_000}M`;
    for (const name of Object.keys(all)) contenders[`${name} ${label}`] = () => measure(name, data);
    for (const [own, other] of [
      ['rollcall', 'bare'],
      ['rollcallUnchanged', 'bare'],
      ['rollcallIn512Mb', 'bareIn512Mb'],
      ['csvTables', 'csvReader'],
      ['rollcall', 'javascriptSet'],
      ['postgresRollcall', 'postgresExcept'],
      ['postgresRollcall', 'postgresBare'],
    ]) {
      ratios[`${own} / ${other}, ${label}`] = [`${own} ${label}`, `${other} ${label}`, 'seconds'];
      ratios[`${own} / ${other}, ${label}, by CPU`] = [`${own} ${label}`, `${other} ${label}`, 'cpuSeconds'];
    }
    for (const [own, other] of [
      ['rollcall', 'bareOtherOrder'],
      ['rollcallUnchanged', 'bareOtherOrder'],
      ['rollcallColumns', 'rollcall'],
      ['backfill', 'bareInsert'],
      ['backfill', 'bareInsertSorted'],
      ['postgresUnchanged', 'postgresBare'],
      ['postgresBackfill', 'postgresBareInsert'],
      ...READS.map(([, ...pair]) => pair),
    ] as const) {
      ratios[`${own} / ${other}, ${label}, by CPU`] = [`${own} ${label}`, `${other} ${label}`, 'cpuSeconds'];
    }
    for (const [own, other] of [
      ['rollcall', 'bare'],
      ['rollcall', 'bareOtherOrder'],
      ['postgresRollcall', 'postgresBare'],
    ]) {
      ratios[`staging of ${own} / ${other}, ${label}, by CPU`] = [
        `${own} ${label}`,
        `${other} ${label}`,
        'stageCpuSeconds',
      ];
    }
  }
  await compare({ name: 'sync', contenders, ratios });
} finally {
  for (const each of [server, readServers.postgres, readServers.mysql]) await each?.stop();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
}
