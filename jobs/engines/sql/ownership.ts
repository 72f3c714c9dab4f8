import { literal } from './plan-query.ts';
import type { SqlDatabase, SqlSession } from './session.ts';
import { hasRegistry, isComplete, tablesOf } from './tables.ts';

/** The store that the snapshots belong to; null if none has claimed them. */
export async function readOwner(database: SqlDatabase): Promise<string | null> {
  const { session } = database;
  const [row] = await rowsIfThere(database, isComplete, `SELECT store FROM ${tablesOf(session).owner}`);
  return row ? String(row[0]) : null;
}

export async function readVersions(database: SqlDatabase): Promise<ReadonlyMap<string, number>> {
  const { session } = database;
  const rows = await rowsIfThere(database, hasRegistry, `SELECT key, version FROM ${tablesOf(session).snapshots}`);
  return new Map(rows.map(([key, version]) => [String(key), Number(version)]));
}

/** Rows of one of our tables. To look first if it is there takes longer than to read it. */
export async function rowsIfThere(
  { session, writable }: SqlDatabase,
  isThere: (session: SqlSession) => Promise<boolean>,
  query: string,
  texts?: readonly string[],
): Promise<readonly unknown[][]> {
  try {
    return await session.rows(query, texts);
  } catch (error) {
    if (writable || (await isThere(session))) throw error;
    return [];
  }
}

/** Gives the snapshots to a store, unless they no longer belong to `from`. */
export async function giveTo(session: SqlSession, store: string, from: string | null): Promise<void> {
  const { owner } = tablesOf(session);
  if (from !== null) {
    await session.run(`UPDATE ${owner} SET store = ${literal(store)} WHERE store = ${literal(from)}`);
    return;
  }
  try {
    await session.run(`INSERT INTO ${owner} VALUES (TRUE, ${literal(store)}) ON CONFLICT DO NOTHING`);
  } catch (error) {
    // DuckDB fails one of two sessions that insert at the same moment.
    const [taken] = await session.rows(`SELECT store FROM ${owner}`);
    if (!taken) throw error;
  }
}
