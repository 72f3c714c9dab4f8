import { readdirSync, readFileSync } from 'node:fs';
import { RollcallError } from '../../errors.ts';
import { failpoint } from '../../failpoint.ts';
import { BEFORE_010 } from '../outdated.ts';
import type { Connection } from './connection.ts';

const FOLDER = new URL('./migrations/', import.meta.url);

/** Brings the schema to the newest version, each step in a transaction of its own. */
export async function migrate(connection: Connection): Promise<void> {
  const steps = readdirSync(FOLDER)
    .filter((file) => file.endsWith('.sql'))
    .sort();
  for (const [index, file] of steps.entries()) {
    const version = index + 1;
    await connection.transaction(() => {
      // Read inside the transaction: another process may have migrated meanwhile.
      if (currentVersion(connection) >= version) return;
      connection.exec(readFileSync(new URL(file, FOLDER), 'utf8'));
      connection.exec(`PRAGMA user_version = ${version}`);
      failpoint('migration');
    });
  }
  if (currentVersion(connection) > steps.length) {
    throw new RollcallError('store_outdated', 'The database was made by a newer Rollcall. Start that version.');
  }
  // The column that came last.
  if (!connection.get("SELECT 1 FROM pragma_table_info('dead_letter') WHERE name = 'taken'"))
    throw new RollcallError('store_outdated', BEFORE_010);
}

function currentVersion(connection: Connection): number {
  return connection.get<{ user_version: number }>('PRAGMA user_version')?.user_version ?? 0;
}
