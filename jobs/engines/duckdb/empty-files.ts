import type { SqlSession } from '../sql/session.ts';

/** Files that are read by their names: `FROM 'x.csv'`, `FROM read_csv('x.csv', …)`, `FROM read_json(['x.json', …])`. */
const FILE = /\b(?:from|join)\s+(?:(?<reader>read_\w+)\s*\(\s*\[?\s*)?(?<file>'(?:[^']|'')*')/gi;

/**
 * The explanation if SQL doesn't fit its columns because a file has no rows: DuckDB takes the types of a CSV or JSON
 * file from its rows, and assumes text without any. Null for other failures.
 */
export async function emptyFile(session: SqlSession, error: Error, sql: string): Promise<string | null> {
  if (!error.message.startsWith('Binder Error')) return null;
  for (const { groups = {} } of sql.matchAll(FILE)) {
    const { reader, file } = groups;
    const table = reader === undefined ? file : `${reader}(${file})`;
    // A file that can't be read this way is not the cause.
    const rows = await session.rows(`SELECT 1 FROM ${table} LIMIT 1`).catch(() => null);
    if (rows?.length !== 0) continue;
    return `${file} has no rows, and so no types but text. Name them, as in read_csv(${file}, types = {'amount': 'DOUBLE'}), and the guard holds the run of an empty file`;
  }
  return null;
}
