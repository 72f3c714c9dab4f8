import { windowsIn } from '../definition/conditions.ts';
import { logViewIn } from '../definition/log-views.ts';
import type { Config } from './config.ts';
import type { Mistake, Path } from './mistakes.ts';

type Checked = Pick<Config, 'engines' | 'store' | 'eventLog' | 'audiences' | 'traits'>;

/** The settings of an engine that decide if it sees the log. */
interface LogEngine {
  readonly type: string;
  /** URL of the database, if any. */
  readonly url?: string | undefined;
  /** Set if it is only read. */
  readonly snapshots?: string | undefined;
}

/** The settings that decide which engines see the log. */
interface LogSight {
  /** False if no log is kept. */
  readonly isKept: boolean;
  /** The store's URL. */
  readonly store: string;
  /** The engine of this name; undefined if there is none or its settings are invalid. */
  readonly engine: (name: string) => LogEngine | undefined;
}

/**
 * True if an engine can read the event log of a store: DuckDB reads that of SQLite, Postgres that of its own database.
 *
 * @param store - the store's URL
 */
export function seesLog(engine: LogEngine, store: string): boolean {
  if (engine.snapshots !== undefined) return false;
  if (store.startsWith('sqlite:')) return engine.type === 'duckdb';
  return engine.type === 'postgres' && databaseOf(engine.url ?? '') === databaseOf(store);
}

/** Identifies the database of a URL. Users and connection options may differ. */
function databaseOf(url: string): string | null {
  const { hostname = '', port = '', pathname = '', searchParams } = URL.parse(url) ?? {};
  if (pathname === '') return null;
  return [searchParams?.get('host') ?? hostname, port === '' ? '5432' : port, pathname].join(' ');
}

/** The reason that an engine can't compute definitions that read the log; null if it can. */
function unseen({ isKept, store, engine }: LogSight, name: string): string | null {
  if (!isKept) return 'which is not kept. Add eventLog: {} to the file';
  const found = engine(name);
  if (found === undefined || seesLog(found, store)) return null;
  return `which the engine ${name} does not see: DuckDB sees that of a SQLite store, Postgres that of its own database`;
}

/**
 * Mistakes of definitions whose engine does not see the log, or without a log: short definitions, and SQL with qualified
 * names of the log's views.
 *
 * @param short - the key of a short definition
 */
export function checkLogIsSeen(
  sight: LogSight,
  path: Path,
  { engine, short, sql }: { readonly engine: string; readonly short: string | null; readonly sql: string | null },
): readonly Mistake[] {
  const why = unseen(sight, engine);
  if (why === null) return [];
  if (short !== null) return [{ path: [...path, short], message: `is computed from the event log, ${why}` }];
  const view = sql === null ? null : logViewIn(sql);
  return view?.isSure
    ? [{ path: [...path, 'sql'], message: `reads ${view.name}, a view of the event log, ${why}` }]
    : [];
}

/** Warns of definitions that probably ask for more than the log has. */
export function logWarnings(config: Checked): readonly Mistake[] {
  const sight = {
    isKept: config.eventLog !== null,
    store: config.store.url,
    engine: (name: string) => config.engines[name],
  };
  return definitionsOf(config).flatMap((definition): readonly Mistake[] => {
    const { path, sql, engine } = definition;
    const why = unseen(sight, engine);
    if (why === null) return windowsBeyond(config, definition);
    const view = sql === null ? null : logViewIn(sql);
    // Without a log, names such as events and users mean the user's own tables.
    if (view === null || (config.eventLog === null && !view.isRare)) return [];
    const message = `reads ${view.name}. Unless that is a table of yours, it is a view of the event log, ${why}`;
    return [{ path: [...path, 'sql'], message }];
  });
}

/** Warns of windows longer than the log's retention. */
function windowsBeyond({ eventLog }: Checked, { path, condition, value }: NamedDefinition): readonly Mistake[] {
  if (eventLog === null) return [];
  const windows = [
    ...(condition ? windowsIn(condition, [...path, 'when']) : []),
    ...(value ? [{ path: [...path, 'value'], within: value.activity.within }] : []),
  ];
  return windows.flatMap(({ path, within }) => {
    if (within === null || within <= eventLog.keep) return [];
    const message = `is ${days(within)}, but the log keeps ${days(eventLog.keep)}. What is older does not count: raise eventLog.keep, or shorten the window`;
    return [{ path: [...path, 'within'], message }];
  });
}

const days = (ms: number) => `${Math.round(ms / 86_400_000)} days`;

type NamedDefinition = ReturnType<typeof definitionsOf>[number];

/** The definitions of audiences and traits. */
function definitionsOf({ audiences, traits }: Checked) {
  return [
    ...audiences.map(({ when, sql, engine }, index) => ({
      path: ['audiences', index] as Path,
      engine,
      condition: when ?? null,
      value: null,
      sql: sql ?? null,
    })),
    ...traits.map(({ value, sql, engine }, index) => ({
      path: ['traits', index] as Path,
      engine,
      condition: null,
      value: value ?? null,
      sql: sql ?? null,
    })),
  ];
}
