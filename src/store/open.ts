import type { StoreConfig } from '../config/config.ts';
import type { Clock } from '../kernel/clock.ts';
import { NO_EVENTS, type Store, type StoreEvents } from './port.ts';

/**
 * Opens the configured store. Each adapter is loaded only if used.
 *
 * @throws RollcallError `store_failed`, `store_outdated`
 */
export async function openStore(
  { url, maxQueued }: StoreConfig,
  clock: Clock,
  events: StoreEvents = NO_EVENTS,
): Promise<Store> {
  if (url.startsWith('sqlite:')) {
    const { openSqliteStore } = await import('./sqlite/store.ts');
    return openSqliteStore({ path: url.slice('sqlite:'.length), maxQueued, clock, events });
  }
  const { openPostgresStore } = await import('./postgres/store.ts');
  return openPostgresStore({ url, maxQueued, clock, events });
}
