import type { Awaitable } from './core/after.ts';
import { checkNumber } from './parse/numbers.ts';
import { ignore, type PostgresClient, type PostgresPool } from './postgres/pool.ts';
import { postgresSchema } from './postgres/schema.ts';
import { InboxTable, isOurs, READ_COMMITTED, stateOf, storable, transaction } from './postgres/table.ts';
import { LeaseLost, type Opening, type ReceiverStore } from './store.ts';

export { type PostgresClient, type PostgresPool, postgresSchema };

export interface PostgresStoreOptions {
  /** A pool of the app's `pg`. Each step takes a connection. None is held while handlers run. */
  pool: PostgresPool;
  /** The table's name, with or without a schema (default `rollcall_receiver`). */
  table?: string;
  /** Milliseconds that handled requests are remembered (default one day; a sender repeats for hours). */
  keep?: number;
  /** Milliseconds until an unrenewed lease expires and another process may begin the request (default 30 s). */
  lease?: number;
  /** SQL for the current time, in milliseconds since 1970 (default: the database's clock, so that hosts' clocks may differ). */
  time?: string;
}

/** A store for any number of hosts; see {@link postgresStore}. */
export interface PostgresStore extends ReceiverStore {
  /** Makes the table if it is missing. Call it at start, or run {@link postgresSchema} as a migration. */
  migrate(): Promise<void>;
  /**
   * Runs `work` in the transaction that marks the request as handled: both happen, once, or neither. Use it in the last
   * handler of a message: work after it is not repeated.
   *
   * @throws LeaseLost, with nothing written, when another process has begun the same request or a change of the same name
   */
  transaction<T, Client extends PostgresClient = PostgresClient>(
    request: { readonly opening: Opening | undefined },
    work: (client: Client) => Awaitable<T>,
  ): Promise<T>;
}

const PRUNE_EVERY = 100;

/**
 * Remembers handled requests, and the order of changes, in one table of the app's Postgres, for all hosts.
 * Each decision is one transaction with the rows it reads. The lease of a host that crashed expires.
 *
 * @throws TypeError when `pool` is not a pool, the table's name is invalid, or `keep` or `lease` is not a number
 */
export function postgresStore(options: PostgresStoreOptions): PostgresStore {
  if (typeof options?.pool?.connect !== 'function') {
    throw new TypeError('pool is a Pool of pg: postgresStore({ pool: new pg.Pool(…) })');
  }
  const { pool, keep = 24 * 60 * 60 * 1000, lease = 30_000, time } = options;
  checkNumber('keep', keep, true);
  checkNumber('lease', lease);
  const table = new InboxTable({ table: options.table, lease, time });
  async function inTransaction<T>(
    given: Opening,
    work: (client: PostgresClient, opening: Opening) => Promise<T>,
    begin = READ_COMMITTED,
  ): Promise<T> {
    const opening = await storable(given);
    return transaction(pool, (client) => work(client, opening), begin);
  }
  pool.on?.('error', ignore);
  let begun = 0;
  return {
    lease,
    async migrate() {
      await transaction(pool, async (client) => {
        // `if not exists` still fails if two processes create the same table concurrently.
        await client.query('select pg_advisory_xact_lock(hashtext($1))', [table.name]);
        await client.query(postgresSchema(table.name));
      });
    },
    async begin(given) {
      if (begun % PRUNE_EVERY === 0) await table.prune(pool, keep);
      begun += 1;
      return inTransaction(given, async (client, opening) => {
        const state = stateOf(await table.lock(client, opening), opening);
        if (state === 'new') await table.hold(client, opening);
        else await table.forgetEmpty(client, opening);
        return state;
      });
    },
    renew: (given) =>
      inTransaction(given, async (client, opening) => {
        const ours = isOurs(await table.lock(client, opening), opening);
        if (ours) await table.hold(client, opening);
        else await table.forgetEmpty(client, opening);
        return ours;
      }),
    done: (given) =>
      inTransaction(given, async (client, opening) => {
        const ours = isOurs(await table.lock(client, opening), opening);
        if (ours) await table.mark(client, opening);
        await table.give(client, opening);
        return ours;
      }),
    release: (given) =>
      inTransaction(given, async (client, opening) => {
        await table.lock(client, opening);
        await table.give(client, opening);
      }),
    transaction({ opening: given }, work) {
      type Client = Parameters<typeof work>[0];
      if (given === undefined) return transaction(pool, async (client) => work(client as Client));
      const marking = async (client: PostgresClient, opening: Opening) => {
        if (!isOurs(await table.lock(client, opening), opening)) throw new LeaseLost();
        // Still held, so that `done` finds what it expects.
        await table.mark(client, opening);
        return work(client as Client);
      };
      return inTransaction(given, marking, 'begin');
    },
  };
}
