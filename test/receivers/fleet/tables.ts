import pg from 'pg';
import type { ComputedBody, ReceivedRequest, ReceiverStore } from '../../../receivers/index.ts';
import { postgresStore } from '../../../receivers/postgres.ts';
import { sqliteStore } from '../../../receivers/sqlite.ts';

/** One statement with the values of its parameters. */
type Statement = readonly [sql: string, ...values: (string | number)[]];

/** The app's tables, in the database that its store is in. */
export interface Tables {
  readonly store: ReceiverStore;
  create(): Promise<void>;
  member(audience: string, message: ComputedBody): Statement;
  memberIfNewer(audience: string, message: ComputedBody): Statement;
  counted(user: string): Statement;
  /** Writes in the transaction that ends the request, and then calls `fail` in it. */
  inTransaction(request: ReceivedRequest, statement: Statement, fail: () => void): Promise<void>;
  alone(statement: Statement): Promise<void>;
  rows(sql: string): Promise<readonly Record<string, unknown>[]>;
  close(): Promise<void>;
}

const schema = `
  create table if not exists member (
    audience text, user_id text, is_member integer, sequence bigint, primary key (audience, user_id));
  create table if not exists counted (user_id text primary key, count integer);`;

const upsert = `insert into member values ($1, $2, $3, $4) on conflict (audience, user_id)
  do update set is_member = excluded.is_member, sequence = excluded.sequence`;

const valuesOf = (audience: string, { userId, traits, context }: ComputedBody) =>
  [audience, userId, Number(traits[audience]), Number(context.personas?.sequence)] as const;

const statements: Pick<Tables, 'member' | 'memberIfNewer' | 'counted'> = {
  member: (audience, message) => [upsert, ...valuesOf(audience, message)],
  memberIfNewer: (audience, message) => [
    `${upsert} where member.sequence <= excluded.sequence`,
    ...valuesOf(audience, message),
  ],
  counted: (user) => [
    'insert into counted values ($1, 1) on conflict (user_id) do update set count = counted.count + 1',
    user,
  ],
};

export function openTables(database: string, lease: number): Promise<Tables> {
  return database.startsWith('postgres') ? openPostgres(database, lease) : openSqlite(database, lease);
}

async function openPostgres(database: string, lease: number): Promise<Tables> {
  const pool = new pg.Pool({ connectionString: database });
  // A connection that breaks while it is idle is replaced.
  pool.on('error', () => {});
  const store = postgresStore({ pool, lease });
  return {
    ...statements,
    store,
    async create() {
      await store.migrate();
      await pool.query(schema);
    },
    inTransaction: (request, [sql, ...values], fail) =>
      store.transaction(request, async (client) => {
        await client.query(sql, values);
        fail();
      }),
    alone: async ([sql, ...values]) => void (await pool.query(sql, values)),
    rows: async (sql) => (await pool.query(sql)).rows,
    close: () => pool.end(),
  };
}

async function openSqlite(database: string, lease: number): Promise<Tables> {
  const store = sqliteStore(database, { lease });
  const inTransaction: Tables['inTransaction'] = async (request, [sql, ...values], fail) =>
    store.transaction(request, (db) => {
      db.prepare(sql.replaceAll('$', '?')).run(...values);
      fail();
    });
  const freely = { opening: undefined } as ReceivedRequest;
  return {
    ...statements,
    store,
    create: async () => store.transaction(freely, (db) => db.exec(schema)),
    inTransaction,
    alone: (statement) => inTransaction(freely, statement, () => {}),
    rows: async (sql) => store.transaction(freely, (db) => db.prepare(sql).all()),
    close: async () => store.close(),
  };
}
