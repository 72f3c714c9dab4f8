import type { Clock } from '../clock.ts';
import type { StoreConfig } from '../config/config.ts';
import { redactUrl } from '../destination.ts';
import type { Store } from './port.ts';
import { type Shard, shardedStore } from './sharded.ts';

/** An open store, and the databases that it consists of: each is delivered from by a worker of its own. */
export interface OpenStore {
  readonly store: Store;
  readonly shards: readonly Shard[];
}

/** As `openShards`, for those who do not deliver. */
export async function openStore(config: StoreConfig, clock: Clock): Promise<Store> {
  return (await openShards(config, clock)).store;
}

/**
 * Opens the store that the configuration names, or several as one. Of several those that can't be reached now are opened
 * once they are back, as long as one of them is there.
 *
 * @throws RollcallError `store_failed`, `store_outdated`
 */
export async function openShards({ urls, maxQueued }: StoreConfig, clock: Clock): Promise<OpenStore> {
  const shards: Shard[] = [];
  const mayBeAway = urls.length > 1;
  try {
    for (const url of urls)
      shards.push({ name: redactUrl(url), store: await openOne(url, maxQueued, clock, mayBeAway) });
    const [only] = shards;
    const store = only && shards.length === 1 ? only.store : shardedStore(shards);
    if (mayBeAway) await store.ping();
    return { store, shards };
  } catch (error) {
    await Promise.all(shards.map(({ store }) => store.close()));
    throw error;
  }
}

/** Each adapter is loaded only where it is used. */
async function openOne(url: string, maxQueued: number, clock: Clock, mayBeAway: boolean): Promise<Store> {
  if (url.startsWith('sqlite:')) {
    const { openSqliteStore } = await import('./sqlite/store.ts');
    return openSqliteStore({ path: url.slice('sqlite:'.length), maxQueued, clock });
  }
  const { openPostgresStore } = await import('./postgres/store.ts');
  return openPostgresStore({ url, maxQueued, clock, mayBeAway });
}
