import { DuckDBInstance } from '@duckdb/node-api';
import { literal } from '../sql/plan-query.ts';

export type Settings = Readonly<Record<string, string>>;

/** A DuckDB with the settings that it has at present. It holds no file of its own: one is attached while it is in use. */
export interface Instance {
  readonly duckdb: DuckDBInstance;
  readonly settings: Settings;
}

/** What an instance can take over from the next file. With any other setting that differs, a new one is made. */
const CHANGEABLE: ReadonlySet<string> = new Set(['file_search_path', 'temp_directory']);
/** How long an instance without a file is kept, in milliseconds. */
const KEPT = 60_000;

let idle: { readonly instance: Instance; readonly timer: NodeJS.Timeout } | null = null;

/**
 * An instance that nobody else uses until `giveBack`. To make one, and to end it, costs more than most runs: DuckDB registers
 * all of its functions, and gives each free page of memory back by itself.
 */
export async function takeInstance(settings: Settings): Promise<Instance> {
  const kept = takeIdle(settings);
  return (kept && (await changed(kept, settings))) ?? make(settings);
}

/** Takes an instance that has no file any more: it is kept for a while, or ended. */
export function giveBack(instance: Instance): void {
  if (idle) {
    end(instance);
    return;
  }
  const timer = setTimeout(() => {
    idle = null;
    end(instance);
  }, KEPT);
  idle = { instance, timer: timer.unref() };
}

export function end({ duckdb }: Instance): void {
  duckdb.closeSync();
}

async function make(settings: Settings): Promise<Instance> {
  const instance = { duckdb: await DuckDBInstance.create(':memory:', { ...settings }), settings };
  await run(instance, ["SET GLOBAL TimeZone = 'UTC'"]);
  return instance;
}

function takeIdle(settings: Settings): Instance | null {
  if (!idle || differing(idle.instance.settings, settings).some((name) => !CHANGEABLE.has(name))) return null;
  const { instance, timer } = idle;
  clearTimeout(timer);
  idle = null;
  return instance;
}

/** Null where it can't be: a folder for temporary files that was written to can't be left. */
async function changed(instance: Instance, settings: Settings): Promise<Instance | null> {
  const names = differing(instance.settings, settings);
  try {
    await run(
      instance,
      names.map((name) => `SET GLOBAL ${name} = ${literal(settings[name] ?? '')}`),
    );
    return { ...instance, settings };
  } catch {
    end(instance);
    return null;
  }
}

/** Runs statements that concern the instance, or the files that are attached to it. */
export async function run({ duckdb }: Instance, statements: readonly string[]): Promise<void> {
  const connection = await duckdb.connect();
  try {
    for (const statement of statements) await connection.run(statement);
  } finally {
    connection.closeSync();
  }
}

/** Names of the settings in which two differ. */
export function differing(one: Settings, other: Settings): readonly string[] {
  return Object.keys({ ...one, ...other }).filter((name) => one[name] !== other[name]);
}
