import { existsSync, rmSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { systemClock } from '../../kernel/clock.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { Database } from '../postgres/database.ts';
import { currentVersion } from '../postgres/migrate.ts';
import { storeError } from '../sqlite/connection.ts';
import { linked, markerOf } from '../sqlite/files.ts';
import { lock } from './move.ts';
import { endLeases } from './restored-postgres.ts';

/**
 * Give a copy of a store an id of its own, so that it can run while the original does: their deliveries have different
 * Idempotency-Keys, and neither gets at the snapshots of the other. Resolves to the new id.
 *
 * @throws RollcallError `bad_usage` if there is no store, or a process has the file open; `store_failed`
 */
export async function renewId(url: string): Promise<string> {
  const id = systemClock.token(5);
  if (url.startsWith('sqlite:')) renewFile(linked(url.slice('sqlite:'.length)), id);
  else await renewDatabase(url, id);
  return id;
}

function renewFile(path: string, id: string): void {
  if (!existsSync(path))
    throw new RollcallError('bad_usage', `There is no store at ${path}. Put the copy there first.`);
  const file = new DatabaseSync(path, { timeout: 1_000 });
  try {
    lock(file);
    file.prepare("UPDATE meta SET value = ? WHERE key = 'store'").run(id);
    file.exec('UPDATE lease SET lease_until = 0');
    file.exec('COMMIT');
    rmSync(markerOf(path), { force: true });
  } catch (error) {
    throw storeError(error);
  } finally {
    file.close();
  }
}

async function renewDatabase(url: string, id: string): Promise<void> {
  const db = new Database({ url, clock: systemClock, patient: true });
  try {
    if ((await currentVersion(db)) === 0)
      throw new RollcallError('bad_usage', 'The database has no store. Restore the copy first.');
    await db.transaction(async (session) => {
      await session.run("UPDATE rollcall.meta SET value = $1 WHERE key = 'store'", [id]);
      await endLeases(session);
    });
  } finally {
    await db.close();
  }
}
