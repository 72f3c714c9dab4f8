import type { SqlSession } from '../sql/session.ts';

/** Files that are read by their names: `FROM 'x.csv'`, `FROM read_csv('x.csv', …)`, `FROM read_json(['x.json', …])`. */
const FILE = /\b(?:from|join)\s+(?:(?<reader>read_\w+)\s*\(\s*\[?\s*)?(?<file>'(?:[^']|'')*')/gi;

/**
 * Why SQL does not fit its columns, where it reads a file without rows: DuckDB takes the types of a CSV or JSON file from its
 * rows, and has text for a column that has none. Null for other failures.
 */
export async function emptyFile(session: SqlSession, error: Error, sql: string): Promise<string | null> {
  if (!error.message.startsWith('Binder Error')) return null;
  for (const { groups = {} } of sql.matchAll(FILE)) {
    const { reader, file } = groups;
    const table = reader === undefined ? file : `${reader}(${file})`;
    // One that can't be read in this way is none of ours.
    const rows = await session.rows(`SELECT 1 FROM ${table} LIMIT 1`).catch(() => null);
    if (rows?.length !== 0) continue;
    return `${file} has no rows, and so no types but text. Name them, as in read_csv(${file}, types = {'amount': 'DOUBLE'}), and the guard holds the run of an empty file`;
  }
  return null;
}
