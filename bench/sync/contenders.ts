import { copyFileSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import pg from 'pg';
import { openDuckdb } from '../../jobs/engines/duckdb/duckdb.ts';
import type { Engine, StageRequest } from '../../jobs/engines/port.ts';
import { openPostgres } from '../../jobs/engines/postgres/postgres.ts';
import { createSync, type SyncReport } from '../../jobs/index.ts';
import { createAccept } from '../../src/accept.ts';
import type { AudienceConfig, EngineConfig, TableConfig } from '../../src/config/config.ts';
import { systemClock } from '../../src/kernel/clock.ts';
import { openSqliteStore } from '../../src/store/sqlite/store.ts';
import { countCpu, type Figures } from '../harness.ts';
import { bareInsert, postgresBareInsert } from './bare-insert.ts';
import { type ReadData, type ReadKind, readAndJoin, readSync } from './readers.ts';

/** Where the data lies: `old.parquet`, `new.parquet`, `snapshot.duckdb` (old, synced), and a Postgres with the same. */
export interface Data {
  readonly folder: string;
  readonly members: number;
  readonly postgres: { readonly url: string; readonly pid: number | null } | null;
  /** Databases that are only read, with the new list; and `read-snapshot.duckdb`, of the old one, `read-new.parquet`. */
  readonly reads: Readonly<Partial<Record<ReadKind, ReadData>>>;
}

const DUCKDB = { type: 'duckdb', memoryLimit: null, threads: null, concurrency: 2 } as const;
/** So that all columns are read. */
const USED = "where amount >= 0 and ordered_at >= timestamp '2026-01-01'";
const DIFFERENT = 'o.user_id is distinct from n.user_id';

/** Runs in a process of its own, so that its memory is its own. */
export const contenders: Record<string, (data: Data) => Promise<Figures>> = {
  bare: ({ folder }) => bareJoin(folder, 'old'),
  bareOtherOrder: ({ folder }) => bareJoin(folder, 'other'),
  bareIn512Mb: ({ folder }) => bareJoin(folder, 'old', { memory_limit: '512MB', temp_directory: `${folder}/spill` }),
  rollcall: (data) => withSnapshot(data, null, (engine) => moveSnapshot(engine, files(data, 'new'))),
  rollcallIn512Mb: (data) => withSnapshot(data, '512MB', (engine) => moveSnapshot(engine, files(data, 'new'))),
  rollcallUnchanged: (data) => withSnapshot(data, null, (engine) => moveSnapshot(engine, files(data, 'old'))),
  rollcallColumns: (data) =>
    withSnapshot(data, null, (engine) => moveSnapshot(engine, columnsOf(data, 'new'), null, COLUMNS), 'columns'),
  csvTables: (data) => withSnapshot(data, null, (engine) => moveSnapshot(engine, `select user_id from orders ${USED}`)),
  csvReader: (data) =>
    withSnapshot(data, null, (engine) =>
      moveSnapshot(
        engine,
        `select user_id from read_csv('${data.folder}/new.csv', types = {'user_id': 'VARCHAR', 'amount': 'DECIMAL(18,2)', 'ordered_at': 'TIMESTAMP'}) ${USED}`,
      ),
    ),
  async javascriptSet({ folder }) {
    const instance = await DuckDBInstance.create();
    const connection = await instance.connect();
    return timed(async () => {
      const before = new Set<string>();
      for await (const chunk of await connection.stream(`from '${folder}/old.parquet'`)) {
        for (const id of chunk.getColumnValues(0)) before.add(id as string);
      }
      let entered = 0;
      for await (const chunk of await connection.stream(`from '${folder}/new.parquet'`)) {
        for (const id of chunk.getColumnValues(0)) if (!before.delete(id as string)) entered += 1;
      }
      if (entered === 0 || before.size === 0) throw new Error('nothing changed');
    });
  },
  async postgresExcept({ postgres }) {
    const client = new pg.Client({ connectionString: postgres?.url ?? '' });
    await client.connect();
    const figures = await timed(
      () =>
        client.query(
          `select count(*) from ((select user_id from new_list except select user_id from old_list)
             union all (select user_id from old_list except select user_id from new_list)) as changes`,
        ),
      postgres?.pid,
    );
    await client.end();
    return figures;
  },
  async postgresBare({ postgres }) {
    const client = new pg.Client({ connectionString: postgres?.url ?? '' });
    await client.connect();
    const figures = await timed(
      () =>
        client.query(
          `select count(*) from old_list o full join new_list n on o.user_id = n.user_id where ${DIFFERENT}`,
        ),
      postgres?.pid,
    );
    await client.end();
    return { ...figures, stageCpuSeconds: figures['cpuSeconds'] ?? 0 };
  },
  async postgresRollcall({ postgres, members }) {
    const engine = await openPostgres({ type: 'postgres', url: postgres?.url ?? '' });
    // Forth and back, so that every round begins with the same snapshot.
    const figures = await moveSnapshot(engine, 'select user_id from new_list', postgres?.pid);
    await moveSnapshot(engine, 'select user_id from old_list');
    await engine.close();
    const client = new pg.Client({ connectionString: postgres?.url ?? '' });
    await client.connect();
    const { rows } = await client.query<{ bytes: number }>(
      `select (pg_database_size(current_database()) - pg_total_relation_size('old_list') - pg_total_relation_size('new_list'))::float8 as bytes`,
    );
    await client.end();
    return { ...figures, bytesEach: (rows[0]?.bytes ?? Number.NaN) / members };
  },
  async postgresUnchanged({ postgres }) {
    const engine = await openPostgres({ type: 'postgres', url: postgres?.url ?? '' });
    const figures = await moveSnapshot(engine, 'select user_id from old_list', postgres?.pid);
    await engine.close();
    return figures;
  },
  async postgresBackfill(data) {
    const url = data.postgres?.url ?? '';
    const engine = { type: 'postgres', url, concurrency: 4 } as const;
    const figures = await backfill(data, () => engine, 'select user_id from old_list', data.postgres?.pid);
    const opened = await openPostgres(engine);
    await opened.drop('first');
    await opened.close();
    return figures;
  },
  postgresBareInsert: (data) => postgresBareInsert(data),
  backfill: (data) =>
    backfill(
      data,
      (folder) => ({ ...DUCKDB, path: join(folder, 'audiences.duckdb') }),
      `select user_id from '${data.folder}/old.parquet'`,
    ),
  readPostgres: (data) => readSync('postgres', data),
  copyAndJoin: (data) => readAndJoin('postgres', data),
  readMysql: (data) => readSync('mysql', data),
  mysqlAndJoin: (data) => readAndJoin('mysql', data),
  readSqlite: (data) => readSync('sqlite', data),
  sqliteAndJoin: (data) => readAndJoin('sqlite', data),
  bareInsert: (data) => bareInsert(data, ''),
  bareInsertSorted: (data) => bareInsert(data, 'order by user_id'),
};

async function bareJoin(folder: string, old: 'old' | 'other', settings: Record<string, string> = {}): Promise<Figures> {
  const instance = await DuckDBInstance.create(':memory:', settings);
  const connection = await instance.connect();
  const figures = await timed(() =>
    connection.run(
      `select count(*) from '${folder}/${old}.parquet' o full join '${folder}/new.parquet' n on o.user_id = n.user_id where ${DIFFERENT}`,
    ),
  );
  return { ...figures, stageCpuSeconds: figures['cpuSeconds'] ?? 0 };
}

/** @param server - the database that works too */
export async function timed(work: () => Promise<unknown>, server: number | null = null): Promise<Figures> {
  const cpu = countCpu(server === null ? [process.pid] : [process.pid, server]);
  const start = performance.now();
  await work();
  return { seconds: (performance.now() - start) / 1000, cpuSeconds: cpu() / 1_000_000 };
}

function files({ folder }: Data, list: 'old' | 'new'): string {
  return `select user_id from '${folder}/${list}.parquet'`;
}

export const COLUMNS = { names: ['email', 'plan'], areSent: false };

/** The list with two columns that go with each change. */
export function columnsOf({ folder }: Pick<Data, 'folder'>, list: 'old' | 'new'): string {
  return `select * from '${folder}/${list}-columns.parquet'`;
}

function ordersOf({ folder }: Data): TableConfig {
  return {
    ...{ files: [`${folder}/new.csv`], format: 'csv', header: true, delimiter: ',', quote: '"', encoding: 'utf-8' },
    columns: { user_id: 'text', amount: 'decimal(18,2)', ordered_at: 'timestamp' },
    ...{ partitions: {}, decimal: '.', dateFormat: null, timestampFormat: null },
    ...{ missingColumns: 'fail', newColumns: 'fail' },
  };
}

async function withSnapshot(
  data: Data,
  memoryLimit: string | null,
  work: (engine: Engine) => Promise<Figures>,
  snapshot = 'snapshot',
) {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-bench-'));
  try {
    const path = join(folder, 'audiences.duckdb');
    copyFileSync(join(data.folder, `${snapshot}.duckdb`), path);
    const engine = await openDuckdb(
      { type: 'duckdb', path, memoryLimit, threads: null, tables: { orders: ordersOf(data) } },
      { folder, clock: systemClock },
    );
    const figures = await work(engine);
    await engine.close();
    return { ...figures, bytesEach: statSync(path).size / data.members };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Stage, commit and discard, as one sync does between its lease and its record. */
export async function moveSnapshot(
  engine: Engine,
  sql: string,
  server: number | null = null,
  columns?: typeof COLUMNS,
): Promise<Figures> {
  const { version } = await engine.snapshot('list');
  const request: StageRequest = {
    plan: `plan-${version + 1}`,
    key: 'list',
    kind: 'audience',
    action: 'sync',
    sql,
    asOf: Date.now(),
    toVersion: version + 1,
    leavers: false,
    leasedAt: version + 1,
    with: columns,
  };
  let changes = 0;
  let stageCpuSeconds = 0;
  const figures = await timed(async () => {
    const staging = await timed(async () => {
      changes = (await engine.stage(request)).total;
    }, server);
    stageCpuSeconds = staging['cpuSeconds'] ?? 0;
    await engine.commit(request.plan);
    await engine.discard(request.plan);
  }, server);
  return { ...figures, stageCpuSeconds, changes };
}

/** The first sync of everybody, into a durable store with one destination. */
async function backfill(
  { members }: Data,
  engine: (folder: string) => EngineConfig,
  sql: string,
  server?: number | null,
): Promise<Figures> {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-bench-'));
  const clock = systemClock;
  const store = await openSqliteStore({ path: join(folder, 'rollcall.db'), maxQueued: 2 * members, clock });
  const destination = { name: 'crm', enabled: true, sources: ['personas'], secrets: [], ratePerSecond: null };
  const destinations = [{ ...destination, endpoints: [], require: 'any' as const }];
  const guard = { maxExits: null, maxEntries: null, maxChanges: null, minMembers: 0, allowEmpty: false };
  const audience: AudienceConfig = {
    kind: 'audience',
    name: 'List',
    key: 'first',
    engine: 'lake',
    source: 'personas',
    schedule: null,
    timezone: null,
    timeout: 3_600_000,
    sql,
    paused: false,
    expect: { freshness: null, minRows: null, maxChange: null, dbt: null },
    guard,
  };
  const marks = new Map<string, number>();
  const sync = createSync({
    store,
    accept: createAccept(store, () => destinations),
    config: () => ({
      folder,
      engines: { lake: engine(folder) },
      audiences: [audience],
      traits: [],
      destinations,
    }),
    clock,
    log: { debug() {}, info() {}, warn() {}, error() {} },
    onProgress: ({ phase }) => {
      if (!marks.has(phase)) marks.set(phase, performance.now());
    },
  });
  let report: SyncReport | undefined;
  const figures = await timed(async () => {
    [report] = await sync.run();
  }, server);
  if (report?.runs[0]?.sent !== members) throw report?.error ?? new Error('not everybody was sent');
  const sendSeconds = ((marks.get('commit') ?? 0) - (marks.get('send') ?? 0)) / 1000;
  await store.close();
  rmSync(folder, { recursive: true, force: true });
  // The first progress comes after the first batch of 5000.
  return { ...figures, perSecond: (members - 5000) / sendSeconds };
}
