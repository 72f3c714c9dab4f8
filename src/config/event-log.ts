import type { Config, EngineConfig } from './config.ts';
import type { Mistake } from './mistakes.ts';

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

/** Short definitions that can't be computed: there is no log, or their engine does not see it. */
export function checkLogIsSeen(config: Config): readonly Mistake[] {
  const { engines, store, eventLog } = config;
  const fault = (name: string): string | null => {
    if (eventLog === null) return 'is computed from the event log, which is not kept. Add eventLog: {} to the file';
    const engine = engines[name];
    if (engine === undefined || seesLog(engine, store.url)) return null;
    return `is computed from the event log, which the engine ${name} does not see: DuckDB sees that of a SQLite store, Postgres that of its own database`;
  };
  const short = [
    ...config.audiences.map(({ when, engine }, index) => ({ path: ['audiences', index, 'when'], given: when, engine })),
    ...config.traits.map(({ value, engine }, index) => ({ path: ['traits', index, 'value'], given: value, engine })),
  ];
  return short.flatMap(({ path, given, engine }) => {
    const message = given && fault(engine);
    return message ? [{ path, message }] : [];
  });
}
