import { literal } from './plan-query.ts';
import type { SqlDatabase, SqlSession } from './session.ts';
import { hasHistory, isComplete, tablesOf } from './tables.ts';

/** The store that the snapshots belong to; null if none has claimed them. */
export async function readOwner({ session, writable }: SqlDatabase): Promise<string | null> {
  if (!writable && !(await isComplete(session))) return null;
  const [row] = await session.rows(`SELECT store FROM ${tablesOf(session).owner}`);
  return row ? String(row[0]) : null;
}

export async function readVersions(database: SqlDatabase): Promise<ReadonlyMap<string, number>> {
  if (!(await hasHistory(database))) return new Map();
  const rows = await database.session.rows(`SELECT key, version FROM ${tablesOf(database.session).snapshots}`);
  return new Map(rows.map(([key, version]) => [String(key), Number(version)]));
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
