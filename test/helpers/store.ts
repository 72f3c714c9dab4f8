import type { Clock } from '../../src/clock.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/port.ts';
import { openSqliteStore } from '../../src/store/sqlite/store.ts';
import { startLocalThread } from './store-threads.ts';

/** URLs of empty, migrated Postgres stores, with which `on-postgres.ts` runs tests again. */
const given = process.env['TEST_STORES']?.split(' ') ?? null;

export const isOnPostgres = given !== null;

/** The URL of a store for one configuration file: a SQLite file beside it, or a Postgres database. */
export function storeUrl(): string {
  if (given === null) return 'sqlite:./rollcall.db';
  const url = given.shift();
  if (url === undefined) throw new Error('more stores are needed than TEST_STORES names');
  return url;
}

/** Such a store, open; SQLite in memory. */
export function openTestStore(maxQueued: number, clock: Clock): Promise<Store> {
  if (given !== null) return openStore({ url: storeUrl(), maxQueued }, clock);
  return openSqliteStore({ path: ':memory:', maxQueued, clock, startThread: startLocalThread });
}
