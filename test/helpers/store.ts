import pg from 'pg';
import type { Test } from 'tap';
import type { Clock } from '../../src/kernel/clock.ts';
import type { Store } from '../../src/store/port.ts';
import { openPostgresStore } from '../../src/store/postgres/store.ts';
import { openSqliteStore } from '../../src/store/sqlite/store.ts';
import { keepConnections } from './kept-connections.ts';
import { startLocalThread } from './store-threads.ts';

/** URLs of empty, migrated Postgres stores, with which `on-postgres.ts` runs tests again. */
const given = process.env['TEST_STORES']?.split(' ') ?? null;

export const isOnPostgres = given !== null;

/**
 * The URL of a store for one configuration file: a SQLite file beside it, or a Postgres database that other tests have, without
 * this one's data, once it is over.
 */
export function storeUrl(t: Test): string {
  if (given === null) return 'sqlite:./rollcall.db';
  const { url, giveBack } = emptyPostgres();
  t.teardown(giveBack);
  return url;
}

/** The URL of a Postgres database that no other test has: for those who keep more in it than a store. */
export function unsharedPostgres(): string {
  const url = given?.shift();
  if (url === undefined) throw new Error('more stores are needed than TEST_STORES names');
  return url;
}

/** A store in memory; on Postgres, the one of a test before whose store is closed, without its data. */
export async function openTestStore(maxQueued: number, clock: Clock): Promise<Store> {
  if (given === null) return openSqliteStore({ path: ':memory:', maxQueued, clock, startThread: startLocalThread });
  const { url, giveBack } = emptyPostgres();
  const store = await openPostgresStore({ url, maxQueued, clock });
  let closing: Promise<void> | null = null;
  const close = () => {
    closing ??= store.close().then(giveBack);
    return closing;
  };
  return { ...store, close };
}

interface EmptyPostgres {
  readonly url: string;
  /** A connection that keeps no process alive. */
  readonly admin: pg.Pool;
  /** To be called once no store has it open any more. */
  readonly giveBack: () => Promise<void>;
}

const free: EmptyPostgres[] = [];

/** A database without data: one that was given back, or another of those that are given. */
export function emptyPostgres(): EmptyPostgres {
  const used = free.pop();
  if (used) return used;
  const url = unsharedPostgres();
  keepConnections(url);
  const admin = new pg.Pool({ connectionString: url, max: 1, idleTimeoutMillis: 0, allowExitOnIdle: true });
  const made: EmptyPostgres = {
    url,
    admin,
    async giveBack() {
      await emptyTables(admin);
      free.push(made);
    },
  };
  return made;
}

/** Empties the store's tables that were ever written to, but for its identity, in a tenth of the time that a new database takes. */
export async function emptyTables(client: Pick<pg.Client, 'query'>): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `SELECT relname AS name FROM pg_class
     WHERE relnamespace = 'rollcall'::regnamespace AND relkind = 'r' AND relname NOT IN ('meta', 'migration')
       AND pg_relation_size(oid) > 0`,
  );
  const emptying = rows.map(({ name }) => `DELETE FROM rollcall.${name}`);
  const counters = "('deletion_epoch', 'generation')";
  await client.query(
    `${emptying.join(';')};
     UPDATE rollcall.meta SET value = '0' WHERE key IN ${counters};
     DELETE FROM rollcall.meta WHERE key NOT IN ${counters} AND key NOT IN ('store', 'suppression_key')`,
  );
}
