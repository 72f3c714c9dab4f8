import { readdirSync, readFileSync } from 'node:fs';
import { RollcallError } from '../../kernel/errors.ts';
import { failpoint } from '../../kernel/failpoint.ts';
import type { Connection } from './connection.ts';

const FOLDER = new URL('./migrations/', import.meta.url);

/**
 * Migrate the schema to the newest version, each step in a transaction of its own.
 *
 * @throws RollcallError `store_failed` for a database of another program, `store_outdated`
 */
export async function migrate(connection: Connection): Promise<void> {
  refuseOfOthers(connection);
  const steps = readdirSync(FOLDER)
    .filter((file) => file.endsWith('.sql'))
    .sort();
  for (const [index, file] of steps.entries()) {
    const version = index + 1;
    await connection.transaction(() => {
      // Read inside the transaction: another process may just have migrated.
      if (currentVersion(connection) >= version) return;
      connection.exec(readFileSync(new URL(file, FOLDER), 'utf8'));
      connection.exec(`PRAGMA user_version = ${version}`);
      failpoint('migration');
    });
  }
  if (currentVersion(connection) > steps.length) {
    throw new RollcallError('store_outdated', 'The database was made by a newer Rollcall. Start that version.');
  }
}

/** Refuse a database of another program: deleting its file would delete our tables, or the reverse. */
function refuseOfOthers(connection: Connection): void {
  const tables = connection.all<{ name: string }>("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name");
  const [first] = tables;
  if (first === undefined || tables.some(({ name }) => name === 'dead_letter')) return;
  const what = `The file is a database of another program: it has a table ${JSON.stringify(first.name)}`;
  throw new RollcallError('store_failed', `${what}. Name a file in \`store\` that is Rollcall's own.`);
}

function currentVersion(connection: Connection): number {
  return connection.get<{ user_version: number }>('PRAGMA user_version')?.user_version ?? 0;
}
