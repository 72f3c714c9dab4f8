import { windowsIn } from '../definition/conditions.ts';
import { logViewIn } from '../definition/log-views.ts';
import type { Config } from './config.ts';
import type { Mistake, Path } from './mistakes.ts';

type Checked = Pick<Config, 'engines' | 'store' | 'eventLog' | 'audiences' | 'traits'>;

/** Of an engine, what says whether it sees the log. */
interface LogEngine {
  readonly type: string;
  /** Of a database. */
  readonly url?: string;
}

/** What says who sees the log. */
interface LogSight {
  /** Whether a log is kept at all. */
  readonly isKept: boolean;
  /** The store's URL. */
  readonly store: string;
  /** The engine of this name; undefined where there is none, or nothing is known of it. */
  readonly engine: (name: string) => LogEngine | undefined;
}

/**
 * Whether an engine can read the event log of a store: DuckDB that of SQLite, and Postgres that of its own database.
 *
 * @param store - the store's URL
 */
export function seesLog(engine: LogEngine, store: string): boolean {
  if (store.startsWith('sqlite:')) return engine.type === 'duckdb';
  return engine.type === 'postgres' && databaseOf(engine.url ?? '') === databaseOf(store);
}

/** Users may differ, and what else is said of the connection. */
function databaseOf(url: string): string | null {
  const { hostname = '', port = '', pathname = '', searchParams } = URL.parse(url) ?? {};
  if (pathname === '') return null;
  return [searchParams?.get('host') ?? hostname, port === '' ? '5432' : port, pathname].join(' ');
}

/** Why a definition that reads the log can't be computed by an engine; null if it can. */
function unseen({ isKept, store, engine }: LogSight, name: string): string | null {
  if (!isKept) return 'which is not kept. Add eventLog: {} to the file';
  const found = engine(name);
  if (found === undefined || seesLog(found, store)) return null;
  return `which the engine ${name} does not see: DuckDB sees that of a SQLite store, Postgres that of its own database`;
}

/**
 * Why a definition can't be computed, since there is no log or its engine does not see it: a short one, or SQL that names the
 * log's views as nobody else does.
 *
 * @param short - the place of a short definition
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

/** Warns of definitions that ask for more than the log most likely has. */
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
    // Without a log, events and users are tables of theirs.
    if (view === null || (config.eventLog === null && !view.isRare)) return [];
    const message = `reads ${view.name}. Unless that is a table of yours, it is a view of the event log, ${why}`;
    return [{ path: [...path, 'sql'], message }];
  });
}

/** Windows that are longer than the log is kept. */
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

/** Audiences and traits by how they are defined. */
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
