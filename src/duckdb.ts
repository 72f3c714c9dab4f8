import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';

export type DuckdbSettings = Readonly<Record<string, string>>;

/** A database in a DuckDB instance that it has for itself, so that no SQL sees another's. */
export interface AttachedDatabase {
  /** A connection whose names are those of the database. Close all of them before `detach`. */
  connect(): Promise<DuckDBConnection>;
  /** Lets go of the file, and writes what its log holds into it. */
  detach(): Promise<void>;
}

/** A DuckDB with the settings that it has at present. */
interface Instance {
  readonly duckdb: DuckDBInstance;
  readonly settings: DuckdbSettings;
}

/** What an instance can take over from the next database. With any other setting that differs, a new one is made. */
const CHANGEABLE: ReadonlySet<string> = new Set(['file_search_path', 'temp_directory']);
/** How long an instance without a database is kept, in milliseconds, and how many at most: an engine's, and the event log's. */
const KEPT = 60_000;
const MOST_KEPT = 2;
/** What is read next is to be as it is then: DuckDB keeps parts of files that it has read. */
const FORGET_READ = [false, true].map((enabled) => `SET GLOBAL enable_external_file_cache = ${enabled}`);

/** Instances without a database, and what ends them. */
const idle = new Map<Instance, NodeJS.Timeout>();

/**
 * Opens a file, or `:memory:`, in an instance that had another before, if there is one. To make one, and to end it, costs more
 * than most runs: DuckDB registers all of its functions, and gives each free page of memory back by itself.
 *
 * @param name - what SQL calls the database
 * @throws Error of DuckDB
 */
export async function attachDatabase(
  { path, name, readOnly = false }: { readonly path: string; readonly name: string; readonly readOnly?: boolean },
  settings: DuckdbSettings,
): Promise<AttachedDatabase> {
  const instance = await takeInstance(settings);
  const quotedName = `"${name.replaceAll('"', '""')}"`;
  try {
    await run(instance, [`ATTACH ${quoted(path)} AS ${quotedName}${readOnly ? ' (READ_ONLY)' : ''}`]);
  } catch (error) {
    keep(instance);
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
        keep(instance);
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

/** Null where it can't be: a folder for temporary files that was written to can't be left. */
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

/** Names of the settings in which two differ. */
export function differingSettings(one: DuckdbSettings, other: DuckdbSettings): readonly string[] {
  return Object.keys({ ...one, ...other }).filter((name) => one[name] !== other[name]);
}
