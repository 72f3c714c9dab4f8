import { RollcallError } from '../../../src/kernel/errors.ts';
import type { Remark } from '../../../src/kernel/remark.ts';
import type { ClickHouse } from './session.ts';
import { plainName } from './tables.ts';

const RIGHTS = ['CREATE TABLE', 'DROP TABLE', 'SELECT', 'INSERT', 'ALTER DELETE', 'ALTER UPDATE'];
const OF_ONE_SERVER = new Set(['Atomic', 'Ordinary', 'Memory']);

export async function examineClickhouse(session: ClickHouse): Promise<readonly Remark[]> {
  const { database } = session;
  const [row = []] = await session.rows(`SELECT version(), currentUser(), getSetting('readonly')`);
  const [version, user, readOnly] = row.map(String);
  const [[kind] = []] = await session.rows(`SELECT engine FROM system.databases WHERE name = ${plainName(database)}`);
  const remarks: Remark[] = [];
  if (readOnly === '1') {
    remarks.push({ state: 'failed', message: `lets ${user} only read (readonly = 1). Use a profile without it` });
  }
  const missing = await missingRights(session, kind === undefined ? ['CREATE DATABASE', ...RIGHTS] : RIGHTS);
  if (missing.length > 0) {
    const grant = `GRANT ${missing.join(', ')} ON ${database}.* TO ${user}`;
    remarks.push({ state: 'failed', message: `gives ${user} too few rights. Let an administrator run ${grant}` });
  }
  if (kind !== undefined && !OF_ONE_SERVER.has(String(kind))) {
    const message = `keeps ${database} in a database of type ${kind}; only single servers were tried: docs/engines.md`;
    remarks.push({ state: 'warning', message });
  }
  return [...remarks, { state: 'ok', message: `ClickHouse ${version}` }];
}

async function missingRights(session: ClickHouse, rights: readonly string[]): Promise<string[]> {
  const missing: string[] = [];
  for (const right of rights) if (!(await isGranted(session, right))) missing.push(right);
  return missing;
}

/** Servers before 24.10 can't check grants: missing rights show with the first run. */
async function isGranted(session: ClickHouse, right: string): Promise<boolean> {
  try {
    const [row] = await session.rows(`CHECK GRANT ${right} ON ${session.database}.*`);
    return Number(row?.[0] ?? 1) === 1;
  } catch (error) {
    if (error instanceof RollcallError && error.code === 'engine_unreachable') throw error;
    return true;
  }
}
