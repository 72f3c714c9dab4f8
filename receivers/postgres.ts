import type { Awaitable } from './after.ts';
import { LeaseLost, type Opened, type Opening, type ReceiverStore } from './store.ts';

/** The methods of a client of `pg` that the store needs. */
export interface PostgresClient {
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
  release(error?: Error): void;
}

/** The methods of a `Pool` of `pg` that the store needs. */
export interface PostgresPool {
  connect(): Promise<PostgresClient>;
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}

export interface PostgresStoreOptions {
  /** A pool of the app's `pg`. A connection is taken for each step, not while handlers work. */
  pool: PostgresPool;
  /** The table, with or without a schema (default `rollcall_receiver`). */
  table?: string;
  /** Milliseconds that handled requests are remembered (default one day; a sender repeats for hours). */
  keep?: number;
  /** Milliseconds that a request is held without being renewed; then another process may begin it (default 30 s). */
  lease?: number;
  /** SQL for the time, in milliseconds since 1970 (default: the database's clock, so that hosts' clocks may differ). */
  time?: string;
}

/** A store that any number of hosts share; see {@link postgresStore}. */
export interface PostgresStore extends ReceiverStore {
  /** Makes the table if it is missing. Call it at start, or run {@link postgresSchema} as a migration. */
  migrate(): Promise<void>;
  /**
   * Runs `work` in the transaction that marks the request as handled: both happen, once, or neither. For the handler that
   * has the last word on a message; whatever it does after that is not repeated.
   *
   * @throws LeaseLost, and has nothing written, when another process has begun the same request or a change of the same name
   */
  transaction<T, Client extends PostgresClient = PostgresClient>(
    request: { readonly opening: Opening | undefined },
    work: (client: Client) => Awaitable<T>,
  ): Promise<T>;
}

/** Prefixes that tell requests and changes apart in one table. */
const REQUEST = 'r:';
const CHANGE = 'c:';
const PRUNE_EVERY = 1_000;
const PRUNE_LIMIT = 10_000;
const DATABASE_TIME = '(extract(epoch from clock_timestamp()) * 1000)::bigint';

/**
 * The SQL that makes the table.
 *
 * @throws TypeError when the name of the table is not one
 */
export function postgresSchema(table = 'rollcall_receiver'): string {
  const index = `${table.split('.').at(-1)}_done`;
  return `
    create table if not exists ${checkedName(table)} (
      name text primary key,
      -- Of a request: when it was handled, in milliseconds since 1970. Null of changes, and of requests at work.
      done_at bigint,
      -- Of a change: the highest sequence that was handled.
      sequence bigint not null default -1,
      holder text,
      held_until bigint
    );
    create index if not exists ${index} on ${table} (done_at) where done_at is not null;`;
}

function checkedName(table: string): string {
  if (!/^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$/.test(table)) {
    throw new TypeError('give a table name of lowercase letters, digits and underscores, with a schema or without');
  }
  return table;
}

interface Row {
  readonly name: string;
  readonly done_at: string | null;
  readonly sequence: string;
  readonly holder: string | null;
  readonly held: boolean;
}

/**
 * Remembers handled requests, and the order of changes, in one table of the app's Postgres, for all hosts.
 * A decision and the rows that it reads are one transaction; a lease ends the work of a host that crashed.
 *
 * @throws TypeError when the name of the table is not one
 */
export function postgresStore(options: PostgresStoreOptions): PostgresStore {
  const { pool, keep = 24 * 60 * 60 * 1000, lease = 30_000, time = DATABASE_TIME } = options;
  const table = checkedName(options.table ?? 'rollcall_receiver');
  let begun = 0;

  async function transaction<T>(work: (client: PostgresClient) => Promise<T>): Promise<T> {
    const client = await pool.connect();
    let broken: Error | undefined;
    try {
      await client.query('begin');
      const result = await work(client);
      await client.query('commit');
      return result;
    } catch (error) {
      await client.query('rollback').catch((failure: Error) => {
        broken = failure;
      });
      throw error;
    } finally {
      // One whose transaction could not be ended is of no use to others.
      client.release(broken);
    }
  }

  /** Locks the rows, which it makes where they are missing; in one order for all, so that no two wait for each other. */
  async function locked(client: PostgresClient, opening: Opening): Promise<Rows> {
    const { key, change, holder } = opening;
    const { rows } = await client.query(
      `insert into ${table} (name) select unnest($1::text[]) order by 1
       on conflict (name) do update set name = excluded.name
       returning name, done_at, sequence, holder, holder is not null and holder <> $2 and held_until > ${time} as held`,
      [namesOf(opening), holder],
    );
    const find = (name: string | undefined) => (rows as Row[]).find((row) => row.name === name);
    return {
      request: find(key === undefined ? undefined : REQUEST + key),
      change: find(change && CHANGE + change.name),
    };
  }

  async function hold(client: PostgresClient, opening: Opening): Promise<void> {
    await client.query(
      `update ${table} set holder = $2, held_until = ${time} + $3::bigint where name = any ($1::text[])`,
      [namesOf(opening), opening.holder, lease],
    );
  }

  async function mark(client: PostgresClient, { key, change }: Opening): Promise<void> {
    await client.query(
      `update ${table} set done_at = case when name = $1 then ${time} end,
         sequence = case when name = $2 then $3::bigint else sequence end
       where name in ($1, $2)`,
      [key === undefined ? null : REQUEST + key, change ? CHANGE + change.name : null, change?.sequence ?? null],
    );
  }

  /** Gives back what the holder has of locked rows; those that say nothing go. */
  async function give(client: PostgresClient, opening: Opening): Promise<void> {
    const names = namesOf(opening);
    await client.query(
      `update ${table} set holder = null, held_until = null where name = any ($1::text[]) and holder = $2`,
      [names, opening.holder],
    );
    await forgetEmpty(client, names);
  }

  async function forgetEmpty(client: PostgresClient, names: readonly string[]): Promise<void> {
    await client.query(
      `delete from ${table} where name = any ($1::text[]) and holder is null and done_at is null and sequence = -1`,
      [names],
    );
  }

  async function prune(): Promise<void> {
    await pool.query(
      `delete from ${table} where name in (
         select name from ${table} where done_at < ${time} - $1::bigint limit ${PRUNE_LIMIT} for update skip locked)`,
      [keep],
    );
  }

  return {
    lease,
    async migrate() {
      await transaction(async (client) => {
        // `if not exists` still fails for one of two that create the same at once.
        await client.query('select pg_advisory_xact_lock(hashtext($1))', [table]);
        await client.query(postgresSchema(table));
      });
    },
    async begin(opening) {
      begun += 1;
      if (begun % PRUNE_EVERY === 0) await prune();
      return transaction(async (client) => {
        const state = stateOf(await locked(client, opening), opening);
        if (state === 'new') await hold(client, opening);
        else await forgetEmpty(client, namesOf(opening));
        return state;
      });
    },
    renew: (opening) =>
      transaction(async (client) => {
        const ours = isOurs(await locked(client, opening), opening);
        if (ours) await hold(client, opening);
        else await forgetEmpty(client, namesOf(opening));
        return ours;
      }),
    done: (opening) =>
      transaction(async (client) => {
        const ours = isOurs(await locked(client, opening), opening);
        if (ours) await mark(client, opening);
        await give(client, opening);
        return ours;
      }),
    release: (opening) =>
      transaction(async (client) => {
        await locked(client, opening);
        await give(client, opening);
      }),
    transaction: ({ opening }, work) =>
      transaction(async (client) => {
        if (opening !== undefined) {
          if (!isOurs(await locked(client, opening), opening)) throw new LeaseLost();
          // Still held, so that `done` finds what it expects.
          await mark(client, opening);
        }
        return work(client as Parameters<typeof work>[0]);
      }),
  };
}

interface Rows {
  readonly request: Row | undefined;
  readonly change: Row | undefined;
}

function namesOf({ key, change }: Opening): string[] {
  const names = [];
  if (key !== undefined) names.push(REQUEST + key);
  if (change !== undefined) names.push(CHANGE + change.name);
  return names;
}

function stateOf(rows: Rows, { change }: Opening): Opened {
  if (rows.request && rows.request.done_at !== null) return 'done';
  if (rows.request?.held) return 'running';
  if (rows.change && change && change.sequence < Number(rows.change.sequence)) return 'stale';
  return rows.change?.held ? 'busy' : 'new';
}

function isOurs({ request, change }: Rows, opening: Opening): boolean {
  return [opening.key && request, opening.change && change].every((row) => !row || row.holder === opening.holder);
}
