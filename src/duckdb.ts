import { createRequire } from 'node:module';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';

// Its own decoder drops a U+FEFF at the beginning of text: two ids would become one.
const accessors = createRequire(import.meta.url)('@duckdb/node-api/lib/vectors/dataAccessors.js');
(accessors as { textDecoder: unknown }).textDecoder = new TextDecoder('utf-8', { ignoreBOM: true });

export type DuckdbSettings = Readonly<Record<string, string>>;

/** A database in a DuckDB instance of its own, so that no SQL sees another database. */
export interface AttachedDatabase {
  /** Opens a connection that resolves names in the database. Close all connections before `detach`. */
  connect(): Promise<DuckDBConnection>;
  /** Writes the log into the file, and closes it. */
  detach(): Promise<void>;
}

export interface Setup {
  /** Statements for the whole instance, which is then not used for other databases. */
  readonly statements: readonly string[];
  readonly failed: (statement: string, error: unknown) => Error;
}

interface Instance {
  readonly duckdb: DuckDBInstance;
  readonly settings: DuckdbSettings;
}

const NO_SETUP: Setup = { statements: [], failed: (_statement, error) => error as Error };

/** Settings that an instance can change for its next database. If any other one differs, a new instance is made. */
const CHANGEABLE: ReadonlySet<string> = new Set(['file_search_path', 'temp_directory']);
/** Milliseconds that an idle instance is kept, and the most of them: an engine's and the event log's. */
const KEPT = 60_000;
const MOST_KEPT = 2;
/** Clears DuckDB's cache of file contents, so that the next database reads files as they are then. */
const FORGET_READ = [false, true].map((enabled) => `SET GLOBAL enable_external_file_cache = ${enabled}`);

/** Instances without a database, with the timers that end them. */
const idle = new Map<Instance, NodeJS.Timeout>();

/**
 * Opens a file, or `:memory:`, in an idle instance if there is one. Making and ending an instance costs more than most
 * runs: DuckDB registers all of its functions, and returns free memory page by page.
 *
 * @param name - name of the database in SQL
 * @throws Error of DuckDB
 */
export async function attachDatabase(
  { path, name, readOnly = false }: { readonly path: string; readonly name: string; readonly readOnly?: boolean },
  settings: DuckdbSettings,
  { statements, failed }: Setup = NO_SETUP,
): Promise<AttachedDatabase> {
  const isOwn = statements.length > 0;
  const instance = isOwn ? await make(settings) : await takeInstance(settings);
  const quotedName = `"${name.replaceAll('"', '""')}"`;
  try {
    await run(instance, [`ATTACH ${quoted(path)} AS ${quotedName}${readOnly ? ' (READ_ONLY)' : ''}`]);
    for (const statement of statements) {
      await run(instance, [statement]).catch((error) => {
        throw failed(statement, error);
      });
    }
  } catch (error) {
    if (isOwn) instance.duckdb.closeSync();
    else keep(instance);
    throw error;
  }
  return {
    async connect() {
      const connection = await instance.duckdb.connect();
      try {
        await connection.run(`USE ${quotedName}`);
        return connection;
      } catch (error) {
        connection.closeSync();
        throw error;
      }
    },
    async detach() {
      try {
        await run(instance, [`DETACH ${quotedName}`, ...FORGET_READ]);
        if (isOwn) instance.duckdb.closeSync();
        else keep(instance);
      } catch {
        instance.duckdb.closeSync();
      }
    },
  };
}

async function takeInstance(settings: DuckdbSettings): Promise<Instance> {
  const kept = takeIdle(settings);
  return (kept && (await changed(kept, settings))) ?? make(settings);
}

async function make(settings: DuckdbSettings): Promise<Instance> {
  const instance = { duckdb: await DuckDBInstance.create(':memory:', { ...settings }), settings };
  await run(instance, ["SET GLOBAL TimeZone = 'UTC'"]);
  return instance;
}

function keep(instance: Instance): void {
  const timer = setTimeout(() => endIdle(instance), KEPT);
  idle.set(instance, timer.unref());
  const [oldest] = idle.keys();
  if (oldest && idle.size > MOST_KEPT) endIdle(oldest);
}

function unkeep(instance: Instance): void {
  clearTimeout(idle.get(instance));
  idle.delete(instance);
}

function endIdle(instance: Instance): void {
  unkeep(instance);
  instance.duckdb.closeSync();
}

function takeIdle(settings: DuckdbSettings): Instance | null {
  const fits = (kept: Instance) => differingSettings(kept.settings, settings).every((name) => CHANGEABLE.has(name));
  const instance = [...idle.keys()].find(fits);
  if (!instance) return null;
  unkeep(instance);
  return instance;
}

/** Null if the settings can't be changed: a folder for temporary files is fixed once it was written to. */
async function changed(instance: Instance, settings: DuckdbSettings): Promise<Instance | null> {
  const names = differingSettings(instance.settings, settings);
  try {
    await run(
      instance,
      names.map((name) => `SET GLOBAL ${name} = ${quoted(settings[name] ?? '')}`),
    );
    return { ...instance, settings };
  } catch {
    instance.duckdb.closeSync();
    return null;
  }
}

async function run({ duckdb }: Instance, statements: readonly string[]): Promise<void> {
  const connection = await duckdb.connect();
  try {
    for (const statement of statements) await connection.run(statement);
  } finally {
    connection.closeSync();
  }
}

const quoted = (text: string) => `'${text.replaceAll("'", "''")}'`;

export function differingSettings(one: DuckdbSettings, other: DuckdbSettings): readonly string[] {
  return Object.keys({ ...one, ...other }).filter((name) => one[name] !== other[name]);
}
