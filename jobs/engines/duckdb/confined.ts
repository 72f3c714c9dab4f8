import { realpath, stat } from 'node:fs/promises';
import { isAbsolute, relative, sep } from 'node:path';
import { RollcallError } from '../../../src/kernel/errors.ts';
import { literal } from '../sql/plan-query.ts';
import type { SqlSession } from '../sql/session.ts';

/** Limits of SQL that somebody tries: it gets this much memory, and no room on disk. */
export const CONFINED = { memory_limit: '512MB', threads: '2', temp_directory: '' } as const;

/** Functions that may stand after FROM. Others read the machine, or run SQL that nobody has looked at. */
const TABLE_FUNCTIONS: ReadonlySet<string> = new Set([
  ...['read_csv', 'read_csv_auto', 'read_json', 'read_json_auto', 'read_json_objects', 'read_json_objects_auto'],
  ...['read_ndjson', 'read_ndjson_auto', 'read_ndjson_objects', 'read_parquet', 'parquet_scan'],
  ...['range', 'generate_series', 'unnest', 'json_each', 'json_tree', 'repeat'],
]);

/** Endings of files that may be read: nothing else under the folder is data. */
const DATA = /\.(csv|tsv|json|jsonl|ndjson|parquet)(\.gz|\.zst)?$/i;

/** The parts of a tree of DuckDB's parser that name something outside of the SQL. */
interface Mentioned {
  readonly functions: readonly string[];
  /** All texts, and names of tables: any of them may be the name of a file. */
  readonly texts: readonly string[];
}

/**
 * Parses a statement that is not trusted.
 *
 * @throws RollcallError `sql_failed` unless it is a single query with known table functions
 */
async function look(session: SqlSession, statement: string): Promise<Mentioned> {
  const [[text] = []] = await session.rows(`SELECT json_serialize_sql(${literal(statement)})`);
  const { error, error_message, statements } = JSON.parse(String(text));
  if (error) throw refused(String(error_message));
  if (statements.length !== 1) throw refused('The SQL must be a single statement.');
  const functions: string[] = [];
  const texts: string[] = [];
  const visit = (node: unknown): void => {
    if (typeof node === 'string') texts.push(node);
    if (typeof node !== 'object' || node === null) return;
    const { type, function: called } = node as { readonly type?: unknown; readonly function?: unknown };
    if (type === 'TABLE_FUNCTION')
      functions.push(String((called as { readonly function_name?: unknown }).function_name).toLowerCase());
    for (const each of Object.values(node)) visit(each);
  };
  visit(statements);
  return { functions, texts };
}

const refused = (message: string) => new RollcallError('sql_failed', message);

interface Confinement {
  /** The configuration's folder. */
  readonly folder: string;
  /** Files that may not be read, whatever they are called: the store, snapshots, tokens. */
  readonly secret: readonly string[];
  /** Files that views of the configuration and of the event log read. */
  readonly known: readonly string[];
}

/**
 * Locks the session's database, which is for a single statement: it reads the files under the folder that the statement
 * names, and those that views read. DuckDB itself refuses the rest, whatever the statement does.
 *
 * @throws RollcallError `sql_failed` if the statement names another file or function
 */
export async function confine(session: SqlSession, statement: string, { folder, secret, known }: Confinement) {
  const { functions, texts } = await look(session, statement);
  const stray = functions.find((name) => !TABLE_FUNCTIONS.has(name));
  if (stray !== undefined) throw refused(`${stray} is no function that SQL which is tried may read from.`);
  const home = await realpath(folder);
  const isSecret = await sameFileAs(secret);
  const allowed = [...known];
  for (const pattern of new Set(texts)) {
    if (!DATA.test(pattern) || pattern.includes('://')) continue;
    if (pattern.split(/[/\\]/).includes('..')) throw outside(pattern);
    if (isAbsolute(pattern) && !isWithin(folder, pattern) && !isWithin(home, pattern)) throw outside(pattern);
    const files = await session.rows(`SELECT file FROM glob(${literal(pattern)})`);
    for (const [name] of files) {
      const file = String(name);
      const real = await realpath(file).catch(() => null);
      const isHidden = real === null || !isWithin(home, real) || relative(home, real).split(sep).some(isDotted);
      if (isHidden || !DATA.test(real) || (await isSecret(real))) throw outside(file);
      allowed.push(file);
    }
    if (files.length > 0) allowed.push(pattern);
  }
  await session.run(`SET allowed_paths = [${allowed.map(literal).join(', ')}]`);
  await session.run('SET enable_external_access = false');
  await session.run('SET lock_configuration = true');
}

const isDotted = (name: string) => name.startsWith('.');

function isWithin(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way !== '' && !isAbsolute(way) && way.split(sep)[0] !== '..';
}

/** Tells a file by its identity, so that a link to it counts too. */
async function sameFileAs(paths: readonly string[]): Promise<(path: string) => Promise<boolean>> {
  const identity = async (path: string) => {
    const found = await stat(path, { bigint: true }).catch(() => null);
    return found && `${found.dev} ${found.ino}`;
  };
  const known = new Set(await Promise.all(paths.map(identity)));
  return async (path) => known.has(await identity(path));
}

const outside = (file: string) =>
  refused(
    `${file} can't be read here: SQL that is tried reads CSV, JSON and Parquet files under the folder of the configuration.`,
  );
