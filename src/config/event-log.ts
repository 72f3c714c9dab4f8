import type { EngineConfig } from './config.ts';

/**
 * Whether an engine can read the event log of a store: DuckDB that of SQLite, and Postgres that of its own database.
 *
 * @param store - the store's URL
 */
export function seesLog(engine: EngineConfig, store: string): boolean {
  if (store.startsWith('sqlite:')) return engine.type === 'duckdb';
  return engine.type === 'postgres' && databaseOf(engine.url) === databaseOf(store);
}

/** Users may differ, and what else is said of the connection. */
function databaseOf(url: string): string | null {
  const { hostname = '', port = '', pathname = '', searchParams } = URL.parse(url) ?? {};
  if (pathname === '') return null;
  return [searchParams?.get('host') ?? hostname, port === '' ? '5432' : port, pathname].join(' ');
}
