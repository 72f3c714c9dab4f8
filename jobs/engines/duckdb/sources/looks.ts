import { createHash } from 'node:crypto';
import { version } from '@duckdb/node-api';
import type { SqlSession } from '../../sql/session.ts';
import { inSchema } from '../../sql/tables.ts';

/** Does the work unless the same was looked through before, with files as they are now. */
export type LookOnce = (what: readonly unknown[], look: () => Promise<boolean>) => Promise<void>;

/** Hashes of what this process has looked through. */
const done = new Set<string>();
const MOST = 10_000;

export const looksTable = (session: SqlSession) => inSchema(session, 'looks');

/** Looks that found nothing wrong. A session that may write keeps them in the engine's file, for later processes. */
export function looksOf(session: SqlSession, writable: boolean): LookOnce {
  const table = looksTable(session);
  return async (what, look) => {
    const hash = createHash('sha256')
      .update(JSON.stringify([...what, version()]))
      .digest('hex');
    if (done.has(hash)) return;
    const kept = await session.rows(`SELECT 1 FROM ${table} WHERE look = '${hash}'`).catch(() => []);
    if (kept.length === 0) {
      if (!(await look())) return;
      if (writable) await keep(session, table, hash).catch(() => {});
    }
    if (done.size >= MOST) done.clear();
    done.add(hash);
  };
}

/** Sessions that write at the same moment may fail. The look is then repeated. */
async function keep(session: SqlSession, table: string, hash: string): Promise<void> {
  await session.run(`CREATE TABLE IF NOT EXISTS ${table} (look varchar NOT NULL)`);
  const [[count] = []] = await session.rows(`SELECT count(*) FROM ${table}`);
  if (Number(count) >= MOST) await session.run(`DELETE FROM ${table}`);
  await session.run(`INSERT INTO ${table} VALUES ('${hash}')`);
}
