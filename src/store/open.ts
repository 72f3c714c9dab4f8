import type { Clock } from '../clock.ts';
import type { StoreConfig } from '../config/config.ts';
import { redactUrl } from '../destination.ts';
import type { Store } from './port.ts';
import { shardedStore } from './sharded.ts';

/**
 * Opens the store that the configuration names, or several as one.
 *
 * @throws RollcallError `store_failed`, `store_outdated`
 */
export async function openStore({ urls, maxQueued }: StoreConfig, clock: Clock): Promise<Store> {
  const stores: Store[] = [];
  try {
    for (const url of urls) stores.push(await openOne(url, maxQueued, clock));
  } catch (error) {
    await Promise.all(stores.map((store) => store.close()));
    throw error;
  }
  const [only, ...others] = stores;
  if (only && others.length === 0) return only;
  return shardedStore(stores.map((store, index) => ({ name: redactUrl(urls[index] ?? ''), store })));
}

/** Each adapter is loaded only where it is used. */
async function openOne(url: string, maxQueued: number, clock: Clock): Promise<Store> {
  if (url.startsWith('sqlite:')) {
    const { openSqliteStore } = await import('./sqlite/store.ts');
    return openSqliteStore({ path: url.slice('sqlite:'.length), maxQueued, clock });
  }
  const { openPostgresStore } = await import('./postgres/store.ts');
  return openPostgresStore({ url, maxQueued, clock });
}
